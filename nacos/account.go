package nacos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crypto/md5" // Nacos's choice, for a header and for revisions; nothing secret hangs on it
	"encoding/hex"

	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/security"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// loginPath and loginPathV3 are where a password becomes a token; a server from 3.0 on may have the second only.
	loginPath   = "/v1/auth/users/login"
	loginPathV3 = "/v3/auth/user/login"
	// loginLimit is how much of an answer to a login is read.
	loginLimit = 64 << 10
	// loginPause lies between two logins after one that failed, however many documents ask.
	loginPause = time.Second
	// renewPause lies between two logins because a token was refused: where the rights are what is missing, another token
	// does not help.
	renewPause = 5 * time.Second
	// defaultHTTPPort is the port of a server in an address list that names none.
	defaultHTTPPort = 8848
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

	// turn has an item while nobody logs in; it guards what follows.
	turn     chan struct{}
	ramReady bool
	token    string
	refresh  time.Time // when the token should be renewed
	expires  time.Time
	failed   error
	failedAt time.Time
	gotAt    time.Time
}

// newAccount asks the client for its configuration. The client is not used for anything else.
func newAccount(client config_client.IConfigClient, provider security.RamCredentialProvider) (*account, error) {
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
		config: config, servers: slices.Clone(servers), turn: make(chan struct{}, 1),
		ram: security.NewRamAuthClientWithProvider(config, provider),
	}
	a.turn <- struct{}{}
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
	select {
	case <-a.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { a.turn <- struct{}{} }()
	if !a.ramReady {
		if _, err := a.ram.Login(); err != nil {
			return nil, fmt.Errorf("credentials: %w", err)
		}
		a.ramReady = true
	}
	namespace := a.config.NamespaceId
	if k == (key{}) {
		namespace = "" // as the server, which can't take several documents apart, expects it
	}
	maps.Copy(h, a.ram.GetSecurityInfo(security.BuildConfigResource(namespace, k.group, k.dataID)))
	if err := a.login(ctx); err != nil {
		return nil, err
	}
	if a.token != "" {
		h[constant.KEY_ACCESS_TOKEN] = a.token
	}
	return h, nil
}

// renew forgets a token that was refused, so that the next request logs in again: the server's key may have changed, or
// the user's rights (F111). It says whether there is anything to hope for from that.
func (a *account) renew(ctx context.Context, refused string) bool {
	if a.config.Username == "" {
		return false
	}
	select {
	case <-a.turn:
	case <-ctx.Done():
		return false
	}
	defer func() { a.turn <- struct{}{} }()
	if a.token != refused {
		return true // somebody else did
	}
	if time.Since(a.gotAt) < renewPause {
		return false
	}
	a.token = ""
	return true
}

// login sees to it that there is a token, if the user's client has a name and a password.
func (a *account) login(ctx context.Context) error {
	now := time.Now()
	if a.config.Username == "" || a.token != "" && now.Before(a.refresh) {
		return nil
	}
	if a.failed != nil && now.Sub(a.failedAt) < loginPause {
		return a.failed
	}
	servers, err := a.list(ctx)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if err = a.loginAt(ctx, server); err == nil {
			a.failed, a.gotAt = nil, time.Now()
			return nil
		}
		if errors.Is(err, ErrDenied) || ctx.Err() != nil {
			break
		}
	}
	if a.token != "" && now.Before(a.expires) {
		a.refresh = now.Add(renewPause) // it is good for a while
		return nil
	}
	err = fmt.Errorf("login: %w", err)
	if ctx.Err() == nil {
		a.failed, a.failedAt = err, time.Now()
	}
	return err
}

func (a *account) loginAt(ctx context.Context, server constant.ServerConfig) error {
	form := url.Values{"username": {a.config.Username}, "password": {a.config.Password}}.Encode()
	status, body, err := a.http(ctx, http.MethodPost, base(server)+loginPath, form)
	if err == nil && (status == http.StatusNotFound || status == http.StatusGone || status == http.StatusNotImplemented) {
		status, body, err = a.http(ctx, http.MethodPost, base(server)+loginPathV3, form)
	}
	if err != nil {
		return err
	}
	var answer struct {
		AccessToken string `json:"accessToken"`
		TTL         int64  `json:"tokenTtl"`
	}
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%w: status %d", ErrDenied, status)
	case status != http.StatusOK:
		return fmt.Errorf("%w: status %d", errServer, status)
	case json.Unmarshal(body, &answer) != nil:
		return errSignInPage
	}
	// A server without authentication may answer without a token.
	ttl := time.Duration(answer.TTL) * time.Second
	now := time.Now()
	a.token, a.refresh, a.expires = answer.AccessToken, now.Add(ttl-ttl/10), now.Add(ttl)
	return nil
}

// http sends one request on a connection of its own, so that none is left idle.
func (a *account) http(ctx context.Context, method, address, form string) (int, []byte, error) {
	secure, err := a.tls()
	if err != nil {
		return 0, nil, err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: secure, Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return a.dial(ctx, address) },
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
	if err != nil {
		return 0, nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	reply, err := transport.RoundTrip(r) // a redirect would carry the password to where somebody else says
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, loginLimit))
	return reply.StatusCode, body, err
}

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

// base is where a server's HTTP interface begins.
func base(s constant.ServerConfig) string {
	host := s.IpAddr
	if !strings.Contains(host, "://") {
		scheme := s.Scheme
		if scheme == "" {
			scheme = constant.DEFAULT_SERVER_SCHEME
		}
		host = scheme + "://" + host
	}
	path := "/" + strings.Trim(s.ContextPath, "/")
	if s.ContextPath == "" {
		path = constant.DEFAULT_CONTEXT_PATH
	}
	return host + ":" + strconv.FormatUint(s.Port, 10) + strings.TrimSuffix(path, "/")
}

// rpcAddress is where a server speaks gRPC.
func rpcAddress(s constant.ServerConfig) string {
	host := s.IpAddr
	if _, after, ok := strings.Cut(host, "://"); ok {
		host = after
	}
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
