package command

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The errors of this package, tested with errors.Is.
var (
	// ErrStale: a push would remove more rules in force than MaxRemoved allows.
	ErrStale = errors.New("stale push")
	// ErrNotPending: there is no held-back push of this kind and ID.
	ErrNotPending = errors.New("no such pending push")
	// ErrStarted: the centre was started already, or closed.
	ErrStarted = errors.New("command centre was started before")
)

// StatusError is an answer other than 200: what a Command returns to choose the status. The body is the error's text.
// Any other error of a Command is answered with 400.
type StatusError struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	Err    error
}

// Error gives the text of the answer.
func (e *StatusError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// The exact texts of the Java client, by which the Dashboard and people's scripts know an outcome.
// Source: sentinel-transport-simple-http 1.8.9, HttpEventTask; ModifyRulesCommandHandler; ModifyParamFlowRulesCommandHandler.
const (
	textSuccess      = "success"
	textPartial      = "partial success (write data source failed)"
	textInvalid      = "Invalid command"
	textServerError  = "Command server error"
	textNoLength     = "No legal Content-Length"
	textNotForm      = "Only form-encoded post request is supported"
	textInvalidType  = "invalid type"
	textBadData      = "Bad data"
	textEmptyNode    = "Invalid parameter: empty clusterNode name"
	textNoGateway    = "gateway rules are not supported by this client"
	textNoCluster    = "cluster mode is not supported by this client"
	textNoSwitch     = "the switch can't be turned off: this client has none"
	textNotFoundNode = "Not find cNode with id "
)

func unknownCommand(name string) error {
	return &StatusError{http.StatusBadRequest, errors.New("Unknown command `" + short(name) + "`")}
}

// short bounds what a stranger sent, for an answer or a record.
func short(text string) string {
	if len(text) <= 100 {
		return text
	}
	return strings.ToValidUTF8(text[:100], "") + "…"
}

func bad(text string) error { return &StatusError{http.StatusBadRequest, errors.New(text)} }

func failf(status int, format string, args ...any) error {
	return &StatusError{status, fmt.Errorf(format, args...)}
}
