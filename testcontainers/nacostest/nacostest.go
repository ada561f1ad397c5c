// Package nacostest runs a real Nacos server for tests.
//
//	server := nacostest.Run(t, nacostest.WithAuth())
//	client, err := clients.NewConfigClient(vo.NacosClientParam{
//		ClientConfig: &clientConfig, ServerConfigs: server.ServerConfigs(),
//	})
//	server.Put(ctx, nacostest.Config{Group: "SENTINEL_GROUP", DataID: "orders-flow-rules"}, data)
//
// Nacos answers a read from a cache that follows its database some milliseconds later; Put and Delete return when the
// server serves what they did.
package nacostest

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"

	"github.com/rulewire/rulewire/testcontainers"
	"github.com/rulewire/rulewire/testcontainers/certs"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
	"github.com/rulewire/rulewire/testcontainers/link"
)

const (
	// AddrEnv names the variable with the host and HTTP port of a Nacos that is already up.
	AddrEnv = "RULEWIRE_NACOS_ADDR"
	// GRPCAddrEnv names the one with the host and port of its gRPC; without it, it is the HTTP port + 1000.
	GRPCAddrEnv = "RULEWIRE_NACOS_GRPC_ADDR"
	// UserEnv and PasswordEnv name those with a user who may do everything, if the server asks for one.
	UserEnv     = "RULEWIRE_NACOS_USERNAME"
	PasswordEnv = "RULEWIRE_NACOS_PASSWORD"
)

const (
	httpPort = 8848
	grpcPort = 9848
	// defaultUser is the one that a new server knows.
	defaultUser = "nacos"
	// patience is how long a server may take to start: eight seconds on an idle machine, much more on a busy one, where it
	// may also give up because its database takes more than ten seconds to open.
	patience = time.Minute
	// serveTimeout is how long the server may take until it serves what was written.
	serveTimeout = 10 * time.Second
	// rolesRenewed is how often the server renews its copy of users and roles.
	rolesRenewed = 15 * time.Second
)

var (
	errNotReady   = errors.New("nacos is not ready")
	errNotServed  = errors.New("nacos does not serve yet what was written")
	errBadRequest = errors.New("status 400")
)

// Server is one Nacos server.
type Server struct {
	*testcontainers.Node
	user, password string
	ca             []byte
	pair           certs.Pair
	http           *http.Client

	mu    sync.Mutex
	token string
	v3    bool
}

// Config names one document.
type Config struct {
	// Namespace is the namespace's id; empty is the public one.
	Namespace string
	Group     string
	DataID    string
}

type settings struct {
	properties map[string]string
	auth, tls  bool
	mutual     bool
	flags      []string
}

// Option is an option of Run.
type Option func(*settings) error

// WithProperty sets a property of the server, as in its application.properties.
func WithProperty(name, value string) Option {
	return func(s *settings) error {
		if name == "" || strings.ContainsAny(name+value, "\r\n") {
			return fmt.Errorf("nacos: property %q", name)
		}
		s.properties[name] = value
		return nil
	}
}

// WithAuth has the server ask for a user and a password. See User.
func WithAuth() Option { return func(s *settings) error { s.auth = true; return nil } }

// WithTLS has the server speak gRPC over TLS with who asks for it; others it lets in as before. HTTP stays as it is. See
// Server.CA.
func WithTLS() Option { return func(s *settings) error { s.tls = true; return nil } }

// WithMutualTLS is WithTLS with a server that asks those for a certificate of its authority. See Server.ClientCert.
func WithMutualTLS() Option {
	return func(s *settings) error { s.tls, s.mutual = true, true; return nil }
}

// Run starts a Nacos server, or uses the one that AddrEnv names if there are no options.
func Run(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{http: &http.Client{Timeout: serveTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
	t.Cleanup(s.http.CloseIdleConnections)
	if addr := os.Getenv(AddrEnv); addr != "" && len(options) == 0 {
		grpc := os.Getenv(GRPCAddrEnv)
		if grpc == "" {
			grpc = offset(t, addr)
		}
		s.user, s.password = os.Getenv(UserEnv), os.Getenv(PasswordEnv)
		s.Node = testcontainers.External(t, "nacos", map[int]string{httpPort: addr, grpcPort: grpc})
		if err := s.ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	set := settings{properties: map[string]string{
		"server.servlet.contextPath": "/nacos", "server.port": strconv.Itoa(httpPort),
		"server.error.include-message": "ALWAYS", "server.tomcat.basedir": "file:.",
		"server.tomcat.accesslog.enabled":           "false",
		"management.metrics.export.elastic.enabled": "false", "management.metrics.export.influx.enabled": "false",
		"nacos.core.auth.system.type": "nacos", "nacos.core.auth.enabled": "false", "nacos.core.auth.caching.enabled": "true",
		"nacos.core.auth.plugin.nacos.token.expire.seconds": "18000",
	}}
	for _, option := range options {
		if err := option(&set); err != nil {
			t.Fatal(err)
		}
	}
	if set.auth {
		s.user, s.password = defaultUser, defaultUser
		for _, name := range []string{"plugin.nacos.token.secret.key", "server.identity.key", "server.identity.value"} {
			set.properties["nacos.core.auth."+name] = secret()
		}
		set.properties["nacos.core.auth.enabled"] = "true"
	}
	files := map[string][]byte{}
	if set.tls {
		authority := certs.New(t)
		pair := authority.Sign(t, "nacos", "127.0.0.1", "localhost")
		s.ca = authority.PEM
		files["/etc/nacos/cert.pem"], files["/etc/nacos/key.pem"] = pair.Cert, pair.Key
		options := map[string]string{"enableTls": "true", "certChainFile": "file:/etc/nacos/cert.pem", "certPrivateKey": "file:/etc/nacos/key.pem"}
		if set.mutual {
			s.pair = authority.Sign(t, "client")
			files["/etc/nacos/ca.pem"] = s.ca
			options["mutualAuthEnable"], options["trustCollectionCertFile"] = "true", "file:/etc/nacos/ca.pem"
		}
		for name, value := range options {
			set.flags = append(set.flags, "-Dnacos.remote.server.rpc.tls."+name+"="+value)
			set.properties["nacos.remote.server.rpc.tls."+name] = value
		}
	}
	files["/etc/nacos/application.properties"] = properties(set.properties)
	image := testcontainers.NacosImage(t)
	testcontainers.Run(t, testcontainers.Spec{
		Name: "nacos", Image: image, Ports: []int{httpPort, grpcPort}, Files: files, Command: command(image, set.flags),
		Ready: func(ctx context.Context, n *testcontainers.Node) error {
			s.Node = n
			return s.ready(ctx)
		},
		Patience: patience, Attempts: 3, Down: s.http.CloseIdleConnections,
	})
	return s
}

// command runs the server of the official image, or of the one that "make images" builds, which has no shell.
func command(image string, flags []string) []string {
	const extra = "--spring.config.additional-location=file:/etc/nacos/"
	java := append([]string{"-Dnacos.standalone=true", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.awt.headless=true", "-Dnacos.inetutils.ip-address=127.0.0.1"}, flags...)
	for _, pkg := range []string{"lang", "util", "io", "net", "math"} {
		java = append(java, "--add-opens=java.base/java."+pkg+"=ALL-UNNAMED")
	}
	if !strings.HasPrefix(image, "rulewire/") {
		const home = "/home/nacos"
		return append(append([]string{"java"}, java...), "-Dnacos.home="+home, "-jar", home+"/target/nacos-server.jar", extra)
	}
	const home = "/data/nacos"
	java = append(append([]string{"/opt/java/bin/java"}, java...), "-Dnacos.home="+home, "-Dnacos.logs.path="+home+"/logs",
		"-Dderby.stream.error.file="+home+"/derby.log",
		// Two versions of Hessian are among the jars; the consistency layer needs the newer one, so it goes first.
		"-cp", "/opt/nacos/lib/hessian-4.0.63.jar:/opt/nacos/lib/*", "com.alibaba.nacos.Nacos", extra)
	return java
}

func properties(m map[string]string) []byte {
	var b bytes.Buffer
	for name, value := range m {
		fmt.Fprintf(&b, "%s=%s\n", name, strings.ReplaceAll(value, `\`, `\\`))
	}
	return b.Bytes()
}

func secret() string {
	b := make([]byte, 48)
	_, _ = rand.Read(b)
	return base64.StdEncoding.EncodeToString(b)
}

func offset(t testing.TB, addr string) string {
	t.Helper()
	host, text, err := net.SplitHostPort(addr)
	port, bad := strconv.Atoi(text)
	if err := errors.Join(err, bad); err != nil {
		t.Fatalf("%s: %v", AddrEnv, err)
	}
	return net.JoinHostPort(host, strconv.Itoa(port+int(constant.RpcPortOffset)))
}

// User and Password are those of a user who may do everything; empty where the server asks for none.
func (s *Server) User() string { return s.user }

// Password is that of User.
func (s *Server) Password() string { return s.password }

// CA is the authority of the server's certificate, PEM; nil without WithTLS.
func (s *Server) CA() []byte { return slices.Clone(s.ca) }

// ClientCert is a certificate that the server lets in, with its key, PEM; empty without WithMutualTLS.
func (s *Server) ClientCert() certs.Pair { return s.pair }

// ServerConfigs are those of a client under test, through the links.
func (s *Server) ServerConfigs() []constant.ServerConfig { return ServerConfigs(s.HTTP(), s.GRPC()) }

// ServerConfigs are those of a client that reaches HTTP and gRPC at these links.
func ServerConfigs(web, grpc *link.Link) []constant.ServerConfig {
	port := func(l *link.Link) uint64 {
		_, text, _ := net.SplitHostPort(l.Addr())
		n, _ := strconv.ParseUint(text, 10, 64)
		return n
	}
	return []constant.ServerConfig{{Scheme: "http", ContextPath: "/nacos", IpAddr: "127.0.0.1", Port: port(web), GrpcPort: port(grpc)}}
}

// HTTP is the link to the HTTP port, where users log in.
func (s *Server) HTTP() *link.Link { return s.Node.Link(httpPort) }

// GRPC is the link to the gRPC port, which carries everything else.
func (s *Server) GRPC() *link.Link { return s.Node.Link(grpcPort) }

// AdminHTTP and AdminGRPC are the addresses of another way to the server, for links of your own.
func (s *Server) AdminHTTP() string { return s.Admin(httpPort) }

// AdminGRPC is the address of gRPC.
func (s *Server) AdminGRPC() string { return s.Admin(grpcPort) }

// ready waits until HTTP, the database and the login work. gRPC starts before them, but refuses until all is up.
func (s *Server) ready(ctx context.Context) error {
	s.mu.Lock()
	s.token = ""
	s.mu.Unlock()
	for _, path := range []string{"/v1/console/health/readiness", "/v3/admin/core/state/readiness"} {
		status, _, err := s.request(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		if status == http.StatusOK {
			s.mu.Lock()
			s.v3 = strings.HasPrefix(path, "/v3")
			s.mu.Unlock()
			probe := Config{Group: "DEFAULT_GROUP", DataID: "rulewire-ready"}
			if err := s.Put(ctx, probe, []byte("ready")); err != nil {
				return err
			}
			return s.Delete(ctx, probe)
		}
	}
	return errNotReady
}

func (s *Server) request(ctx context.Context, method, path string, form url.Values) (int, []byte, error) {
	address := "http://" + s.AdminHTTP() + "/nacos" + path
	var body io.Reader
	switch {
	case form != nil && method == http.MethodPost:
		body = strings.NewReader(form.Encode())
	case form != nil:
		address += "?" + form.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded;charset=utf-8")
	}
	s.mu.Lock()
	if s.token != "" {
		r.Header.Set("accessToken", s.token)
	}
	s.mu.Unlock()
	answer, err := s.http.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, data, err
}

// call is a request of the user who may do everything; it logs in first where that is needed.
func (s *Server) call(ctx context.Context, method, v1, v3 string, form url.Values) (int, []byte, error) {
	s.mu.Lock()
	path, login, token := v1, "/v1/auth/users/login", s.token
	if s.v3 {
		path, login = v3, "/v3/auth/user/login"
	}
	s.mu.Unlock()
	if s.user != "" && token == "" {
		status, data, err := s.request(ctx, http.MethodPost, login, url.Values{"username": {s.user}, "password": {s.password}})
		if err != nil {
			return 0, nil, err
		}
		var answer struct{ AccessToken string }
		if status != http.StatusOK || json.Unmarshal(data, &answer) != nil {
			return 0, nil, fmt.Errorf("nacos: login: status %d", status)
		}
		s.mu.Lock()
		s.token = answer.AccessToken
		s.mu.Unlock()
	}
	status, data, err := s.request(ctx, method, path, form)
	if status == http.StatusForbidden || status == http.StatusUnauthorized {
		s.mu.Lock()
		s.token = "" // it may have expired
		s.mu.Unlock()
		if token != "" {
			return s.call(ctx, method, v1, v3, form)
		}
	}
	return status, data, err
}

func (c Config) form() url.Values {
	return url.Values{"tenant": {c.Namespace}, "namespaceId": {c.Namespace}, "group": {c.Group}, "groupName": {c.Group}, "dataId": {c.DataID}}
}

const (
	configs   = "/v1/cs/configs"
	configsV3 = "/v3/admin/cs/config"
)

// Get reads what the server serves; ok is false where there is no document.
func (s *Server) Get(ctx context.Context, c Config) (data []byte, ok bool, err error) {
	status, data, err := s.call(ctx, http.MethodGet, configs, "/v3/client/cs/config", c.form())
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	v3 := s.v3
	s.mu.Unlock()
	switch {
	case status == http.StatusNotFound:
		return nil, false, nil
	case status != http.StatusOK:
		return nil, false, fmt.Errorf("nacos: get: status %d", status)
	case !v3:
		return data, true, nil
	}
	var answer struct {
		Data struct{ Content *string }
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Data.Content == nil {
		return nil, false, err
	}
	return []byte(*answer.Data.Content), true, nil
}

// Store writes a document and does not wait until it is served.
func (s *Server) Store(ctx context.Context, c Config, data []byte) error {
	form := c.form()
	form.Set("content", string(data))
	form.Set("type", "json")
	return s.change(ctx, http.MethodPost, form)
}

// Put writes a document and returns when it is served.
func (s *Server) Put(ctx context.Context, c Config, data []byte) error {
	if err := s.Store(ctx, c, data); err != nil {
		return err
	}
	return s.served(ctx, c, func(now []byte, ok bool) bool { return ok && bytes.Equal(now, data) })
}

// Remove deletes a document, which need not exist, and does not wait until it is gone.
func (s *Server) Remove(ctx context.Context, c Config) error {
	return s.change(ctx, http.MethodDelete, c.form())
}

// Delete deletes a document, which need not exist, and returns when it is gone.
func (s *Server) Delete(ctx context.Context, c Config) error {
	if err := s.Remove(ctx, c); err != nil {
		return err
	}
	return s.served(ctx, c, func(_ []byte, ok bool) bool { return !ok })
}

func (s *Server) change(ctx context.Context, method string, form url.Values) error {
	status, _, err := s.call(ctx, method, configs, configsV3, form)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("nacos: %s: status %d", method, status)
	}
	return err
}

func (s *Server) served(ctx context.Context, c Config, is func([]byte, bool) bool) error {
	ctx, cancel := context.WithTimeout(ctx, serveTimeout)
	defer cancel()
	return wait.Until(ctx, func(ctx context.Context) error {
		data, ok, err := s.Get(ctx, c)
		if err == nil && !is(data, ok) {
			err = errNotServed
		}
		return err
	})
}

// AddNamespace makes a namespace.
func (s *Server) AddNamespace(ctx context.Context, id string) error {
	status, _, err := s.call(ctx, http.MethodPost, "/v1/console/namespaces", "/v3/admin/core/namespace",
		url.Values{"customNamespaceId": {id}, "namespaceId": {id}, "namespaceName": {id}, "namespaceDesc": {id}})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("nacos: namespace: status %d", status)
	}
	return err
}

// AddUser makes a user who may do action, "r" or "rw", with the documents of a namespace, and nothing where it is "".
// Unless the server has the property nacos.core.auth.caching.enabled=false, it lets such a user in some seconds later.
func (s *Server) AddUser(ctx context.Context, name, password, namespace, action string) error {
	err := s.users(ctx, http.MethodPost, "user", url.Values{"username": {name}, "password": {password}})
	if err == nil && action != "" {
		err = s.users(ctx, http.MethodPost, "role", url.Values{"username": {name}, "role": {name}})
	}
	if err != nil || action == "" {
		return err
	}
	// The server looks roles up in a copy, and a renewal of it that was under way when the role was made does not have it: it is
	// "not found", status 400, until the next one (NacosRoleServiceDirectImpl.addPermission).
	ctx, cancel := context.WithTimeout(ctx, 2*rolesRenewed)
	defer cancel()
	waited := wait.Until(ctx, func(ctx context.Context) error {
		if err = s.Allow(ctx, name, namespace, action); errors.Is(err, errBadRequest) {
			return err
		}
		return nil
	})
	return cmp.Or(waited, err)
}

// Allow gives a user that AddUser made with an action the right to another one; Forbid takes one away.
func (s *Server) Allow(ctx context.Context, name, namespace, action string) error {
	return s.users(ctx, http.MethodPost, "permission", permission(name, namespace, action))
}

// Forbid takes a right away.
func (s *Server) Forbid(ctx context.Context, name, namespace, action string) error {
	return s.users(ctx, http.MethodDelete, "permission", permission(name, namespace, action))
}

func permission(name, namespace, action string) url.Values {
	return url.Values{"role": {name}, "resource": {namespace + ":*:*"}, "action": {action}}
}

func (s *Server) users(ctx context.Context, method, what string, form url.Values) error {
	status, _, err := s.call(ctx, method, "/v1/auth/"+what+"s", "/v3/auth/"+what, form)
	switch {
	case err == nil && status == http.StatusBadRequest:
		err = fmt.Errorf("nacos: %s %s: %w", method, what, errBadRequest)
	case err == nil && status != http.StatusOK:
		err = fmt.Errorf("nacos: %s %s: status %d", method, what, status)
	}
	return err
}

// SetPassword gives a user another password.
func (s *Server) SetPassword(ctx context.Context, name, password string) error {
	return s.users(ctx, http.MethodPut, "user", url.Values{"username": {name}, "newPassword": {password}})
}
