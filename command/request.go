package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// Command is one command of the command port.
type Command struct {
	// Name is the path without its first slash; case matters. It may hold slashes.
	Name string
	// Description is for people, and answered by `api`.
	Description string
	// Edits says that the command changes something: browsers then get in only with a page of this very port.
	Edits bool
	// Run answers a request. An error is answered with 400 and its text, a StatusError with its own status. A panic is
	// answered with 500 and contained.
	Run func(ctx context.Context, r *Request) (Answer, error)
}

// Answer is a good answer: status 200.
type Answer struct {
	Body []byte
	// JSON says that the body is JSON; else it is text.
	JSON bool
}

// Text is a text answer.
func Text(s string) Answer { return Answer{Body: []byte(s)} }

// Request is one request for a command.
type Request struct {
	// Actor is who asks: a token's or a certificate's name, else the address.
	Actor string
	// peer tells those who remember lists of rules apart.
	peer   string
	params map[string]string
}

// Param gives a parameter, "" if it is absent or empty. The form wins over the query, and the last of equal names over the
// others.
func (r *Request) Param(name string) string { return r.params[name] }

// parse reads query and form. It changes nothing, so that whatever is wrong leaves everything as it is.
func (c *Centre) parse(w http.ResponseWriter, r *http.Request) (map[string]string, error) {
	params := make(map[string]string)
	if err := parseForm(params, r.URL.RawQuery); err != nil {
		return nil, err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return params, nil
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		return nil, &StatusError{http.StatusMethodNotAllowed, errors.New("only GET and POST are supported")}
	}
	if text := r.Header.Get("Content-Type"); text != "" {
		media, _, err := mime.ParseMediaType(text)
		if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) || media != "application/x-www-form-urlencoded" {
			//lint:ignore ST1005 these are the Java client's words
			return nil, &StatusError{http.StatusUnsupportedMediaType, errors.New(textNotForm)}
		}
	}
	if r.ContentLength < 1 { // absent, and chunked, too
		//lint:ignore ST1005 these are the Java client's words
		return nil, &StatusError{http.StatusLengthRequired, errors.New(textNoLength)}
	}
	if r.ContentLength > c.opts.maxBody {
		// A client that is still sending when the connection is closed loses the answer, so what is not far over the bound is
		// read and thrown away.
		if r.ContentLength <= 2*c.opts.maxBody {
			_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength) // cut off or not, it is refused
		}
		w.Header().Set("Connection", "close")
		return nil, failf(http.StatusRequestEntityTooLarge, "the body has %d bytes, at most %d are taken", r.ContentLength, c.opts.maxBody)
	}
	if r.ContentLength > smallBody {
		if err := c.enter(r.Context(), c.bodies); err != nil {
			return nil, err
		}
		defer func() { <-c.bodies }()
	}
	var body bytes.Buffer
	body.Grow(int(min(r.ContentLength, 64<<10)) + bytes.MinRead) // it grows with what really comes
	_, err := body.ReadFrom(io.LimitReader(r.Body, r.ContentLength))
	if err != nil || int64(body.Len()) != r.ContentLength {
		w.Header().Set("Connection", "close")
		return nil, failf(http.StatusBadRequest, "the body was cut off after %d of %d bytes", body.Len(), r.ContentLength)
	}
	text := body.String()
	if trimmed := strings.TrimLeft(text, " \t\r\n"); strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{") {
		params["data"] = text // the bare document; no parameter's name starts so
		return params, nil
	}
	return params, parseForm(params, text)
}

// maxParams bounds the parameters of a request, which take many times the memory of their text. No command has ten.
const maxParams = 1000

// parseForm adds the parameters of a query or a form, decoded once. Empty ones are dropped, as the Java client drops them.
func parseForm(params map[string]string, text string) error {
	for part := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return failf(http.StatusBadRequest, "a parameter's name is not encoded right: %w", err)
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return failf(http.StatusBadRequest, "parameter %.50q is not encoded right: %w", name, err)
		}
		if value == "" {
			continue
		}
		if params[name] = value; len(params) > maxParams {
			return failf(http.StatusBadRequest, "more than %d parameters", maxParams)
		}
	}
	return nil
}

// document gives parameter data as bytes. Callers that encode twice to please the Java client, which decodes twice, are
// understood: no document starts with an encoded bracket.
func (r *Request) document() ([]byte, error) {
	data := r.Param("data")
	if len(data) >= 3 {
		switch strings.ToUpper(data[:3]) {
		case "%5B", "%7B":
			inner, err := url.QueryUnescape(data)
			if err != nil {
				return nil, failf(http.StatusBadRequest, "data is not encoded right: %w", err)
			}
			data = inner
		}
	}
	if data == "" {
		return nil, bad(textBadData)
	}
	return []byte(data), nil
}
