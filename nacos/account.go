package nacos

import (
	"context"
	"crypto/md5" // Nacos's choice, for a header and for revisions; nothing secret hangs on it
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/security"

	"github.com/rulewire/rulewire/datasource"
)

var (
	errNoClient   = errors.New("client is nil")
	errNoServers  = errors.New("the client's configuration names no server")
	errSignInPage = errors.New("the answer to the login is not Nacos's: is there a proxy or a sign-in page in between?")
)

// teller is what a client of the SDK tells of its configuration. config_client.ConfigClient has it by embedding.
type teller interface {
	GetClientConfig() (constant.ClientConfig, error)
	GetServerConfig() ([]constant.ServerConfig, error)
}

// dialer is how tests lead connections elsewhere. Nothing outside of this package can have it.
type dialer interface {
	dial(ctx context.Context, address string) (net.Conn, error)
}

// account is what the user's client was configured with, and the token that it earned.
type account struct {
	config  constant.ClientConfig
	servers []constant.ServerConfig
	dial    func(context.Context, string) (net.Conn, error)
	ram     *security.RamAuthClient
	signIn  *Login

	// keysTurn has an item while nobody asks ram; it guards keysReady.
	keysTurn  chan struct{}
	keysReady bool
	// turn has an item while nobody logs in; it guards what follows.
	turn     chan struct{}
	token    string
	refresh  time.Time // when the token should be renewed
	expires  time.Time
	failed   error
	failedAt time.Time
	gotAt    time.Time
}

// newAccount asks the client for its configuration. The client is not used for anything else.
func newAccount(client config_client.IConfigClient, provider security.RamCredentialProvider, signIn *Login) (*account, error) {
	t, ok := client.(teller)
	if !ok {
		return nil, fmt.Errorf("a client of type %T does not tell its configuration: %w", client, datasource.ErrUnsupported)
	}
	config, err := t.GetClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the client's configuration: %w", err)
	}
	servers, err := t.GetServerConfig()
	if err != nil {
		return nil, fmt.Errorf("the client's servers: %w", err)
	}
	if len(servers) == 0 && config.Endpoint == "" {
		return nil, errNoServers
	}
	a := &account{
		config: config, servers: slices.Clone(servers), turn: make(chan struct{}, 1), keysTurn: make(chan struct{}, 1),
		ram: security.NewRamAuthClientWithProvider(config, provider), signIn: signIn,
	}
	if signIn == nil {
		a.signIn = NewLogin(config.Username, config.Password)
	}
	a.turn <- struct{}{}
	a.keysTurn <- struct{}{}
	if d, ok := client.(dialer); ok {
		a.dial = d.dial
	} else {
		a.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return a, nil
}

// headers are what a request about k carries: who asks, and for which application. The zero key is for requests about
// several documents.
func (a *account) headers(ctx context.Context, k key) (map[string]string, error) {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	h := map[string]string{
		constant.CLIENT_APPNAME_HEADER: a.config.AppName, constant.CLIENT_REQUEST_TS_HEADER: now,
		constant.CLIENT_REQUEST_TOKEN_HEADER: sum([]byte(now + a.config.AppKey)),
		constant.EX_CONFIG_INFO:              "true", constant.CHARSET_KEY: "utf-8",
	}
	namespace := a.config.NamespaceId
	if k == (key{}) {
		namespace = "" // as the server, which can't take several documents apart, expects it
	}
	signed, err := a.keys(ctx, security.BuildConfigResource(namespace, k.group, k.dataID))
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	maps.Copy(h, signed)
	select {
	case <-a.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { a.turn <- struct{}{} }()
	if err := a.login(ctx); err != nil {
		return nil, err
	}
	if a.token != "" {
		h[constant.KEY_ACCESS_TOKEN] = a.token
	}
	return h, nil
}

// keys gives the headers of access keys, if there are any. A provider of keys knows no context, may ask a server, and may be
// the user's own: nobody waits for it longer than for ctx, and its panic is an error. Until it returns nobody else asks it.
func (a *account) keys(ctx context.Context, resource security.RequestResource) (map[string]string, error) {
	select {
	case <-a.keysTurn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	type result struct {
		headers map[string]string
		err     error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: fmt.Errorf("panic: %v", p)}
			}
			a.keysTurn <- struct{}{}
			done <- r
		}()
		if !a.keysReady {
			if _, r.err = a.ram.Login(); r.err != nil {
				return
			}
			a.keysReady = true
		}
		r.headers = a.ram.GetSecurityInfo(resource)
	}()
	select {
	case r := <-done:
		return r.headers, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// labels describe the connection to the server, as the SDK's own would, so that releases to a part of the clients reach
// this one too.
func (a *account) labels() map[string]string {
	l := map[string]string{
		constant.LABEL_SOURCE: constant.LABEL_SOURCE_SDK, constant.LABEL_MODULE: constant.LABEL_MODULE_CONFIG,
		constant.APPNAME_HEADER: a.config.AppName, "taskId": "0",
	}
	if gray := os.Getenv("nacos_config_gray_label"); gray != "" {
		l["app_nacos_config_gray_label"] = gray
	}
	for name, value := range a.config.AppConnLabels {
		l["app_"+name] = value
	}
	return l
}

// localIP is the address that the server files the client under; releases to a part of the clients go by it.
var localIP = sync.OnceValue(func() string {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
})

func sum(data []byte) string {
	s := md5.Sum(data)
	return hex.EncodeToString(s[:])
}
