package main

import (
	"errors"

	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/ext/datasource"
	"github.com/alibaba/sentinel-golang/logging"
	"github.com/apolloconfig/agollo/v4/env/config"
	"github.com/hashicorp/consul/api"
	"github.com/nacos-group/nacos-sdk-go/clients"
	"github.com/nacos-group/nacos-sdk-go/common/constant"
	"github.com/nacos-group/nacos-sdk-go/vo"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/rulewire/rulewire/bench/backends/theirs/apollo"
	"github.com/rulewire/rulewire/bench/backends/theirs/consul"
	"github.com/rulewire/rulewire/bench/backends/theirs/etcdv3"
	"github.com/rulewire/rulewire/bench/backends/theirs/nacos"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
)

// theirSource is what of sentinel-golang's data sources is used.
type theirSource interface {
	Initialize() error
	Close() error
}

// silent is a logger that says nothing: sentinel-golang's own writes whole documents to files in the home folder, which
// is not the work that is compared.
type silent struct{}

func (silent) Debug(string, ...interface{})        {}
func (silent) DebugEnabled() bool                  { return false }
func (silent) Info(string, ...interface{})         {}
func (silent) InfoEnabled() bool                   { return false }
func (silent) Warn(string, ...interface{})         {}
func (silent) WarnEnabled() bool                   { return false }
func (silent) Error(error, string, ...interface{}) {}
func (silent) ErrorEnabled() bool                  { return false }

func quietTheirs() error { return logging.ResetGlobalLogger(silent{}) }

var errType = errors.New("not flow rules")

// handler is their way from bytes to typed rules; what is done with them is not compared.
func handler(t *told) datasource.PropertyHandler {
	return datasource.NewDefaultPropertyHandler(datasource.FlowRuleJsonArrayParser, func(data interface{}) error {
		if data == nil {
			return nil
		}
		rules, ok := data.([]*flow.Rule)
		if !ok {
			return errType
		}
		if len(rules) > 0 {
			t.number(int(rules[0].Threshold))
		}
		return nil
	})
}

func theirEtcd(client *clientv3.Client, key string, t *told) (theirSource, error) {
	return etcdv3.NewDataSource(client, key, handler(t))
}

func theirConsul(client *api.Client, key string, t *told) (theirSource, error) {
	return consul.NewDataSource(key, consul.WithConsulClient(client), consul.WithPropertyHandlers(handler(t)))
}

func theirNacos(server *nacostest.Server, dir, dataID string, t *told) (theirSource, error) {
	var servers []constant.ServerConfig
	for _, s := range server.ServerConfigs() {
		servers = append(servers, constant.ServerConfig{Scheme: "http", ContextPath: "/nacos", IpAddr: s.IpAddr, Port: s.Port})
	}
	client, err := clients.NewConfigClient(vo.NacosClientParam{ServerConfigs: servers, ClientConfig: &constant.ClientConfig{
		TimeoutMs: 5000, NotLoadCacheAtStart: true, LogDir: dir, CacheDir: dir, LogLevel: "error",
		Username: server.User(), Password: server.Password(),
	}})
	if err != nil {
		return nil, err
	}
	return nacos.NewNacosDataSource(client, nacosGroup, dataID, handler(t))
}

func theirApollo(app *config.AppConfig, key string, t *told) (theirSource, error) {
	return apollo.NewDatasource(app, key, apollo.WithPropertyHandlers(handler(t)))
}
