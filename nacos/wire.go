package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	pb "github.com/nacos-group/nacos-sdk-go/v2/api/grpc"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/rulewire/rulewire/datasource"
)

// Nacos sends JSON in protobuf envelopes; an envelope names the type of its body. These are the few that a configuration
// needs, with the fields that count.
const (
	typeServerCheck  = "ServerCheckRequest"
	typeSetup        = "ConnectionSetupRequest"
	typeHealth       = "HealthCheckRequest"
	typeListen       = constant.CONFIG_BATCH_LISTEN_REQUEST_NAME
	typeQuery        = constant.CONFIG_QUERY_REQUEST_NAME
	typePublish      = constant.CONFIG_PUBLISH_REQUEST_NAME
	typeRemove       = "ConfigRemoveRequest"
	typeNotify       = constant.CONFIG_CHANGE_NOTIFY_REQUEST_NAME
	typeDetection    = "ClientDetectionRequest"
	typeReset        = "ConnectResetRequest"
	typeSetupAck     = "SetupAckRequest"
	typeError        = "ErrorResponse"
	typeListenAnswer = "ConfigChangeBatchListenResponse"
	typeQueryAnswer  = "ConfigQueryResponse"
)

const (
	codeSuccess = 200
	// codeNotFound is the code of a query whose document does not exist. In an ErrorResponse the same number says that
	// the server is starting, which is no statement about documents.
	codeNotFound     = 300
	codeBusy         = 400
	codeUnregistered = constant.UN_REGISTER
	codeUnauthorized = 401
	codeForbidden    = 403
	// maxMessage is how much of a server's message an error repeats.
	maxMessage = 200
)

// ErrDenied is datasource.ErrDenied: the server refuses the client's credentials, or what they allow is less than was asked.
var ErrDenied = datasource.ErrDenied

// ServerError is a refusal by the server.
type ServerError struct {
	// Code is Nacos's error code.
	Code int
	// Message is the beginning of what the server says.
	Message string
}

// Error gives code and message.
func (e *ServerError) Error() string {
	return fmt.Sprintf("the server refuses, code %d: %s", e.Code, e.Message)
}

// Unwrap gives ErrDenied where the server says so.
func (e *ServerError) Unwrap() error {
	if e.Code == codeForbidden || e.Code == codeUnauthorized {
		return ErrDenied
	}
	return nil
}

var (
	errAnswer       = errors.New("the answer is not Nacos's")
	errUnregistered = errors.New("the server does not know the connection any more")
)

type place struct {
	DataID string `json:"dataId"`
	Group  string `json:"group"`
	Tenant string `json:"tenant"`
}

type configRequest struct {
	place
	Module string `json:"module"`
}

type internalRequest struct {
	Module string `json:"module"`
}

type setupRequest struct {
	internalRequest
	ClientVersion string            `json:"clientVersion"`
	Tenant        string            `json:"tenant"`
	Labels        map[string]string `json:"labels"`
	Abilities     struct{}          `json:"clientAbilities"`
}

type listenContext struct {
	place
	MD5 string `json:"md5"`
}

type listenRequest struct {
	configRequest
	Listen   bool            `json:"listen"`
	Contexts []listenContext `json:"configListenContexts"`
}

type publishRequest struct {
	configRequest
	Content   string            `json:"content"`
	CasMD5    string            `json:"casMd5,omitempty"`
	Additions map[string]string `json:"additionMap"`
}

type answer struct {
	ResultCode int    `json:"resultCode"`
	ErrorCode  int    `json:"errorCode"`
	Success    bool   `json:"success"`
	Message    string `json:"message"`
}

func (a *answer) base() *answer { return a }

type anyAnswer interface{ base() *answer }

// err gives the refusal; both of its marks count.
func (a *answer) err() error {
	if a.Success && a.ErrorCode == 0 || a.ResultCode == codeSuccess && a.ErrorCode == 0 {
		return nil
	}
	code := a.ErrorCode
	if code == 0 {
		code = a.ResultCode
	}
	return &ServerError{Code: code, Message: short(a.Message)}
}

func short(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

type checkAnswer struct {
	answer
	ConnectionID string `json:"connectionId"`
}

type listenAnswer struct {
	answer
	Changed []place `json:"changedConfigs"`
}

type queryAnswer struct {
	answer
	Content string `json:"content"`
	MD5     string `json:"md5"`
}

// pushed is a request of the server's.
type pushed struct {
	RequestID string `json:"requestId"`
	place
	ServerIP   string `json:"serverIp"`
	ServerPort string `json:"serverPort"`
}

type acknowledgement struct {
	ResultCode int    `json:"resultCode"`
	Success    bool   `json:"success"`
	RequestID  string `json:"requestId"`
}

func envelope(kind string, headers map[string]string, body any) (*pb.Payload, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &pb.Payload{
		Metadata: &pb.Metadata{Type: kind, Headers: headers, ClientIp: localIP()},
		Body:     &anypb.Any{Value: data},
	}, nil
}

// exchange sends one request and decodes its answer, if that is of the type want (or of any, where want is "") or says
// no. What it returns as *ServerError the server did not do.
func exchange(ctx context.Context, c pb.RequestClient, kind string, headers map[string]string, body any, want string, into anyAnswer, options ...grpc.CallOption) error {
	request, err := envelope(kind, headers, body)
	if err != nil {
		return err
	}
	reply, err := c.Request(ctx, request, options...)
	if err != nil {
		return err
	}
	got := reply.GetMetadata().GetType()
	if got != typeError && want != "" && got != want {
		return fmt.Errorf("%w: %q instead of %q", errAnswer, short(got), want)
	}
	if err := json.Unmarshal(reply.GetBody().GetValue(), into); err != nil {
		return fmt.Errorf("%w: body of %q", errAnswer, short(got))
	}
	err = into.base().err()
	switch {
	case err != nil && into.base().ErrorCode == codeUnregistered:
		return errUnregistered
	case got == typeError && err == nil:
		return fmt.Errorf("%w: an error that says it is none", errAnswer)
	case got == typeError:
		// Not as a *ServerError of the operation: codes mean something else here.
		var refusal *ServerError
		if errors.As(err, &refusal) && !errors.Is(err, ErrDenied) {
			return fmt.Errorf("%w: code %d: %s", errServer, refusal.Code, refusal.Message)
		}
	}
	return err
}

// errServer is a failure of the server that says nothing about the document or the write.
var errServer = errors.New("the server fails")

// isRefusal says whether the server answered that it did not do it.
func isRefusal(err error) bool { return errors.As(err, new(*ServerError)) }
