package nacos

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/common/security"

	"github.com/rulewire/rulewire/datasource"
)

// The defaults of the options.
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = datasource.DefaultMaxBytes
	DefaultCompare  = 10 * time.Second
	DefaultType     = "json"
)

const (
	// minCompare is five comparisons a second, what Nacos's own client allows itself for one document.
	minCompare = 200 * time.Millisecond
	// The server's own limits for names.
	maxDataID, maxGroup = 256, 128
	// cipherPrefix marks a document that Nacos's clients encrypt and decrypt by a plugin.
	cipherPrefix = "cipher-"
)

// Option changes a default of NewSource or NewSink. Each says which of them takes it; the other returns an error.
type Option func(*settings) error

type settings struct {
	sink        bool
	timeout     time.Duration
	maxBytes    int
	compare     time.Duration
	readCompare bool
	contentType string
	provider    security.RamCredentialProvider
	signIn      *Login
}

// Timeout bounds one request, the making of a connection included. Default 5 s. An engine bounds a source's reads by its
// own ReadTimeout (5 s), too. For sources and sinks.
func Timeout(d time.Duration) Option {
	return func(s *settings) error {
		if d <= 0 {
			return fmt.Errorf("Timeout(%v) is not positive", d)
		}
		s.timeout = d
		return nil
	}
}

// MaxBytes is the size over which a document is refused with datasource.ErrTooLarge, on reading and on writing, bytes.
// Default 4 MiB. The server cuts a request at 10 MiB, and a deployment may allow less (100 KB is what its capacity
// management says by default, where it is on). For sources and sinks.
func MaxBytes(n int) Option {
	return func(s *settings) error {
		if n <= 0 {
			return fmt.Errorf("MaxBytes(%d) is not positive", n)
		}
		s.maxBytes = n
		return nil
	}
}

// Compare is how often the checksums of all documents of a client are compared with the server's, in one request: the
// safety net for notifications that got lost. Of sources with different periods on one client the shortest counts.
// Default 10 s, at least 200 ms. For sources.
func Compare(d time.Duration) Option {
	return func(s *settings) error {
		if d < minCompare {
			return fmt.Errorf("Compare(%v) is less than %v", d, minCompare)
		}
		s.compare = d
		return s.only(false, "Compare")
	}
}

// ReadCompareWrite is for servers that ignore the checksum of a conditional write, which are refused otherwise: the sink
// then reads, compares and writes, in three steps. An edit that somebody makes between its read and its write, some
// milliseconds apart, is lost. A server that honours the checksum is sent it all the same. Default: off. For sinks.
func ReadCompareWrite() Option {
	return func(s *settings) error {
		s.readCompare = true
		return s.only(true, "ReadCompareWrite")
	}
}

// Type is the content type that the console shows for what was written: "json", "yaml" or "text". Default "json". For
// sinks.
func Type(name string) Option {
	return func(s *settings) error {
		switch name {
		case "json", "yaml", "text":
			s.contentType = name
		default:
			return fmt.Errorf("Type(%q): not json, yaml or text", name)
		}
		return s.only(true, "Type")
	}
}

// Credentials is the provider of access keys that the client was made with, if it was made with one of the user's own:
// a client does not tell. Access keys and roles in constant.ClientConfig need no option. For sources and sinks; all of
// one client must say the same.
func Credentials(p security.RamCredentialProvider) Option {
	return func(s *settings) error {
		if p == nil {
			return errors.New("Credentials(nil)")
		}
		s.provider = p
		return nil
	}
}

// SignIn gives user and password in the place of those of the client's configuration, which is asked for once only: with
// it a password that is rotated needs no new client. For sources and sinks; all of one client must say the same.
func SignIn(l *Login) Option {
	return func(s *settings) error {
		if l == nil {
			return errors.New("SignIn(nil)")
		}
		s.signIn = l
		return nil
	}
}

func (s *settings) only(sink bool, name string) error {
	if s.sink == sink {
		return nil
	}
	return fmt.Errorf("option %s does not belong here", name)
}

func configure(sink bool, options []Option) (settings, error) {
	s := settings{
		sink: sink, timeout: DefaultTimeout, maxBytes: DefaultMaxBytes, compare: DefaultCompare, contentType: DefaultType,
	}
	var errs []error
	for _, option := range options {
		if option == nil {
			errs = append(errs, errors.New("nil option"))
			continue
		}
		errs = append(errs, option(&s))
	}
	return s, errors.Join(errs...)
}

// key names a document within the namespace of a client.
type key struct{ group, dataID string }

// newKey checks the names by the server's own rules, so that a slip is an error here and not a refusal later.
func newKey(dataID, group string) (key, error) {
	if group == "" {
		group = constant.DEFAULT_GROUP
	}
	switch {
	case dataID == "":
		return key{}, errors.New("data id is empty")
	case len(dataID) > maxDataID || len(group) > maxGroup:
		return key{}, fmt.Errorf("data id or group is longer than the server takes (%d and %d)", maxDataID, maxGroup)
	case strings.HasPrefix(dataID, cipherPrefix):
		return key{}, fmt.Errorf("data id %q names an encrypted document: %w", dataID, datasource.ErrUnsupported)
	}
	for _, name := range []string{dataID, group} {
		if i := strings.IndexFunc(name, odd); i >= 0 {
			return key{}, fmt.Errorf("%q: the server takes letters, digits, and - _ . : in names", name)
		}
	}
	return key{group: group, dataID: dataID}, nil
}

func odd(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:", r))
}

// id gives the ID that source and sink of one document share.
func (k key) id(namespace string) string {
	if namespace != "" {
		namespace += "/"
	}
	return "nacos:" + namespace + k.group + "/" + k.dataID
}
