package apollo

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/rulewire/rulewire/datasource"
)

const (
	// maxBody bounds an answer. A namespace comes as a whole, so it is more than one document.
	maxBody = 64 << 20
	// shownBody is how much of an error's body is worth showing: a proxy may send a page.
	shownBody = 200
)

// ErrNotApollo means that something else than Apollo answered: a sign-in page, a proxy, another server.
var ErrNotApollo = errors.New("the answer is not Apollo's")

// StatusError is an answer that is no answer.
type StatusError struct {
	// Code is the HTTP status.
	Code int
	// Server is the host that gave it.
	Server string
	// Message is what Apollo says, or the beginning of the body.
	Message string
	// RetryAfter is how long the server asks to be left alone, or 0.
	RetryAfter time.Duration
}

// Error gives server, status and message.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: %d %s", e.Server, e.Code, http.StatusText(e.Code))
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Code == http.StatusUnauthorized {
		text += " (secret or token wrong, disabled, or this machine's clock off by more than a minute)"
	}
	return text
}

// Unwrap gives datasource.ErrDenied for 401 and 403.
func (e *StatusError) Unwrap() error {
	if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
		return datasource.ErrDenied
	}
	return nil
}

type reply struct {
	status int
	server string
	header http.Header
	body   []byte
}

// send sends a request. An error means that no answer came. The transport may be the user's, and a panic of it comes on a
// goroutine of the client's.
func send(c *http.Client, req *http.Request) (r reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			r, err = reply{}, fmt.Errorf("%s: panic: %v", req.URL.Host, p)
		}
	}()
	req.Header.Set("Accept", "application/json") // else an error page is HTML
	res, err := c.Do(req)
	if err != nil {
		// The URL differs from one attempt to the next, and a log that tells each condition once goes by the text.
		var page *url.Error
		if errors.As(err, &page) {
			err = page.Err
		}
		return reply{}, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return reply{}, fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	if len(body) > maxBody {
		return reply{}, fmt.Errorf("%s: %w: more than %d bytes", req.URL.Host, datasource.ErrTooLarge, maxBody)
	}
	return reply{res.StatusCode, req.URL.Host, res.Header, body}, nil
}

// complaint is what Apollo says when it does not do what it was asked for.
type complaint struct {
	Status  float64 `json:"status"` // the portal passes on 404.0
	Message string  `json:"message"`
	Path    string  `json:"path"`
}

// complaint tells Apollo's own "no" from that of a proxy.
func (r reply) complaint() (c complaint, ours bool) {
	err := json.Unmarshal(r.body, &c)
	return c, err == nil && int(c.Status) == r.status
}

// error makes an error of an answer with another status than was hoped for.
func (r reply) error() error {
	e := &StatusError{Code: r.status, Server: r.server}
	c, ours := r.complaint()
	switch {
	case ours && c.Message != "":
		e.Message = short(c.Message)
	case !ours:
		e.Message = short(string(r.body))
	}
	if s, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	if r.status >= 200 && r.status < 400 || r.status == http.StatusNotFound && !ours {
		return fmt.Errorf("%w: %w", ErrNotApollo, e)
	}
	return e
}

// into decodes the body of an answer.
func (r reply) into(v any) error {
	if err := json.Unmarshal(r.body, v); err != nil {
		return fmt.Errorf("%s: %w: %w: %s", r.server, ErrNotApollo, err, short(string(r.body)))
	}
	return nil
}

func short(text string) string {
	if len(text) > shownBody {
		cut := shownBody
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return strings.ToValidUTF8(text, "\ufffd")
}

type notification struct {
	Namespace string         `json:"namespaceName"`
	ID        int64          `json:"notificationId"`
	Messages  jsontext.Value `json:"messages"`
}

// bare is the name of a namespace without the suffix that means nothing.
func bare(name string) string {
	if i := len(name) - len(properties); i > 0 && strings.EqualFold(name[i:], properties) {
		return name[:i]
	}
	return name
}
