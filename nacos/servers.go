package nacos

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
)

// defaultHTTPPort is the port of a server in an address list that names none.
const defaultHTTPPort = 8848

// list gives the servers: those of the configuration, or what its address server says at the moment.
func (a *account) list(ctx context.Context) ([]constant.ServerConfig, error) {
	if len(a.servers) > 0 {
		return a.servers, nil
	}
	path := func(name, otherwise string) string {
		if name = strings.Trim(strings.TrimSpace(name), "/"); name == "" {
			return otherwise
		}
		return name
	}
	address := "http://" + a.config.Endpoint + "/" + path(a.config.EndpointContextPath, "nacos") + "/" + path(a.config.ClusterName, "serverlist")
	if query := strings.TrimSpace(a.config.EndpointQueryParams); query != "" {
		address += "?" + query
	}
	status, body, err := a.http(ctx, http.MethodGet, address, "")
	if err != nil {
		return nil, fmt.Errorf("address server: %w", err)
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("address server: %w: status %d", errServer, status)
	}
	var servers []constant.ServerConfig
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		server := constant.ServerConfig{IpAddr: line, Port: defaultHTTPPort, ContextPath: a.config.ContextPath}
		if host, text, err := net.SplitHostPort(line); err == nil {
			server.IpAddr = host
			if server.Port, err = strconv.ParseUint(text, 10, 16); err != nil {
				return nil, fmt.Errorf("address server: %w", err)
			}
		}
		servers = append(servers, server)
	}
	if len(servers) == 0 {
		return nil, errNoServers
	}
	return servers, nil
}

// host takes a server's address apart. The SDK wants an address of IPv6 in brackets; without them it is the same one.
func host(s constant.ServerConfig) (scheme, name string) {
	scheme, name, ok := strings.Cut(s.IpAddr, "://")
	if !ok {
		scheme, name = cmp.Or(s.Scheme, constant.DEFAULT_SERVER_SCHEME), s.IpAddr
	}
	return scheme, strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
}

// base is where a server's HTTP interface begins.
func base(s constant.ServerConfig) string {
	scheme, host := host(s)
	path := "/" + strings.Trim(s.ContextPath, "/")
	if s.ContextPath == "" {
		path = constant.DEFAULT_CONTEXT_PATH
	}
	return scheme + "://" + net.JoinHostPort(host, strconv.FormatUint(s.Port, 10)) + strings.TrimSuffix(path, "/")
}

// rpcAddress is where a server speaks gRPC.
func rpcAddress(s constant.ServerConfig) string {
	_, host := host(s)
	port := s.GrpcPort
	if port == 0 {
		port = s.Port + constant.RpcPortOffset
	}
	return net.JoinHostPort(host, strconv.FormatUint(port, 10))
}

// tls gives the client's TLS configuration, nil where it has none. Files are read each time, so that a renewed
// certificate counts from the next connection on. Where the client leaves it open the environment decides, by the
// variables that the SDK reads.
func (a *account) tls() (*tls.Config, error) {
	c := a.config.TLSCfg
	if !c.Appointed && !c.Enable {
		env := func(name string) string { return os.Getenv("nacos_remote_client_rpc_tls_" + name) }
		c.Enable, _ = strconv.ParseBool(env("enable"))
		c.TrustAll, _ = strconv.ParseBool(env("trustAll"))
		c.CaFile, c.CertFile, c.KeyFile = env("trustCollectionChainPath"), env("certChainFile"), env("certPrivateKey")
	}
	if !c.Enable {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: c.TrustAll, ServerName: c.ServerNameOverride}
	if c.CaFile != "" {
		data, err := os.ReadFile(c.CaFile)
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		if config.RootCAs, err = x509.SystemCertPool(); err != nil {
			config.RootCAs = x509.NewCertPool()
		}
		if !config.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("TLS: no certificate in %s", c.CaFile)
		}
	}
	if c.CertFile != "" && c.KeyFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
