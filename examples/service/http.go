package main

import (
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/base"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/sentinel"
)

//go:embed page.html
var pageFS embed.FS

var page = template.Must(template.ParseFS(pageFS, "page.html"))

// maxSleep bounds the sleep of a call.
const maxSleep = 10 * time.Second

func handler(rules *sentinel.Rules) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "GET only", http.StatusMethodNotAllowed)
			return
		}
		// No ServeMux: it would fold the slashes of a resource such as /order/create.
		switch path := r.URL.Path; {
		case strings.HasPrefix(path, "/call/") && path != "/call/":
			call(w, r, strings.TrimPrefix(path, "/call/"))
		case path == "/rules" || path == "/rules/":
			status(w, r, rules)
		case strings.HasPrefix(path, "/rules/"):
			document(w, strings.TrimPrefix(path, "/rules/"), rules)
		case path == "/":
			http.Redirect(w, r, "/rules", http.StatusFound)
		default:
			http.Error(w, "try /rules, /rules/{kind} or /call/{resource}", http.StatusNotFound)
		}
	})
}

// call passes through the core library.
func call(w http.ResponseWriter, r *http.Request, resource string) {
	q := r.URL.Query()
	var sleep time.Duration
	if text := q.Get("sleep"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 || d > maxSleep {
			http.Error(w, "sleep: want a duration such as 20ms, at most "+maxSleep.String(), http.StatusBadRequest)
			return
		}
		sleep = d
	}
	opts := []api.EntryOption{api.WithTrafficType(base.Inbound)}
	if q.Has("arg") {
		opts = append(opts, api.WithArgs(argument(q.Get("arg"), q.Get("type"))))
	}
	entry, blocked := api.Entry(resource, opts...)
	if blocked != nil {
		writeJSON(w, http.StatusTooManyRequests, map[string]any{
			"blocked": true, "resource": resource, "kind": kindOf(blocked.BlockType()), "reason": blocked.BlockMsg(),
			"rule": ruleText(blocked.TriggeredRule()),
		})
		return
	}
	defer entry.Exit()
	if sleep > 0 {
		t := time.NewTimer(sleep)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
		}
	}
	if q.Get("fail") == "1" {
		api.TraceError(entry, errors.New("the call failed, as asked"))
		writeJSON(w, http.StatusInternalServerError, map[string]any{"resource": resource, "failed": true})
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"resource": resource})
}

// argument gives the hot parameter the type that the rule's special items compare with: whole numbers are int unless
// type=string asks for text.
func argument(text, as string) any {
	if n, err := strconv.Atoi(text); err == nil && as != "string" {
		return n
	}
	return text
}

// ruleText is the core's own text of a rule: JSON for most kinds.
func ruleText(r base.SentinelRule) any {
	if r == nil {
		return nil
	}
	text := r.String()
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return text
}

func kindOf(t base.BlockType) rule.Kind {
	switch t {
	case base.BlockTypeFlow:
		return rule.KindFlow
	case base.BlockTypeIsolation:
		return rule.KindIsolation
	case base.BlockTypeCircuitBreaking:
		return rule.KindDegrade
	case base.BlockTypeSystemFlow:
		return rule.KindSystem
	case base.BlockTypeHotSpotParamFlow:
		return rule.KindParamFlow
	default:
		return rule.Kind(t.String())
	}
}

// view is one kind on /rules.
type view struct {
	State       datasource.State            `json:"state"`
	Cause       datasource.Cause            `json:"cause,omitempty"`
	Source      string                      `json:"source"`
	Revision    string                      `json:"revision"`
	Hash        string                      `json:"hash"`
	Generation  uint64                      `json:"generation"`
	Rules       int                         `json:"rules"`
	LastChange  *time.Time                  `json:"last_change"`
	LastSuccess *time.Time                  `json:"last_success"`
	LastError   *problem                    `json:"last_error"`
	Refused     map[datasource.Cause]uint64 `json:"refused"`
	Pending     *pending                    `json:"pending"`
	Drift       bool                        `json:"drift"`
	Note        string                      `json:"note,omitempty"`
	Held        []held                      `json:"held,omitempty"` // kept for the Dashboard, and not enforced
}

type held struct {
	Resource string `json:"resource"`
	Reason   string `json:"reason"`
}

type problem struct {
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
}

type pending struct {
	Revision string           `json:"revision,omitempty"`
	ID       string           `json:"id,omitempty"`    // of a push by the Dashboard that was held back
	Actor    string           `json:"actor,omitempty"` // who pushed it
	Accept   string           `json:"accept,omitempty"`
	Cause    datasource.Cause `json:"cause"`
	Rules    int              `json:"rules"`
	Added    int              `json:"added"`
	Changed  int              `json:"changed"`
	Removed  int              `json:"removed"`
	Diff     []string         `json:"diff"`
}

func viewOf(s datasource.Status) view {
	v := view{
		State: s.State, Cause: s.Cause, Source: s.SourceID, Revision: s.Revision, Hash: s.Hash, Generation: s.Generation,
		Rules: s.Rules, Refused: s.Refused, LastChange: stamp(s.LastChange), LastSuccess: stamp(s.LastSuccess),
		Drift: s.Drift, Note: s.Note,
	}
	if s.Cause == datasource.CauseMissing && s.Generation == 0 {
		v.State = datasource.StateLive // any file may be absent, and none was ever there: nothing is amiss
	} else if s.LastError != nil {
		v.LastError = &problem{Message: s.LastError.Error()}
		var f *converter.Fault
		if errors.As(s.LastError, &f) {
			v.LastError.Line, v.LastError.Column, v.LastError.Pointer = f.Line, f.Column, f.Pointer
		}
	}
	if p := s.Pending; p != nil {
		v.Pending = &pending{Revision: p.Revision, Cause: p.Cause, Rules: p.Rules, Added: p.Added, Changed: p.Changed, Removed: p.Removed, Diff: p.Diff}
	}
	return v
}

// causeStalePush is a push of the Dashboard that would have removed more rules than one click does.
const causeStalePush datasource.Cause = "stale_push"

// addPushes shows what the command port held back.
func addPushes(views map[rule.Kind]view, c *command.Centre) {
	if c == nil {
		return
	}
	s := c.Status()
	for kind, n := range s.Stale {
		v := views[kind]
		v.Refused[causeStalePush] += n
		views[kind] = v
	}
	for _, p := range s.Pending { // the newest of a kind is shown
		v := views[p.Kind]
		if v.Pending == nil || v.Pending.Cause == causeStalePush {
			v.Pending = &pending{Cause: causeStalePush, ID: p.ID, Actor: p.Actor, Rules: p.Rules, Added: p.Added, Changed: p.Changed, Removed: p.Removed,
				Diff: p.Diff, Accept: fmt.Sprintf("curl -d 'kind=%s&id=%s' http://%s/acceptRules", p.Kind, p.ID, s.Addr)}
			views[p.Kind] = v
		}
	}
}

func stamp(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func status(w http.ResponseWriter, r *http.Request, rules *sentinel.Rules) {
	views := make(map[rule.Kind]view)
	for _, s := range rules.Status() {
		v := viewOf(s.Sources[0]) // one file a kind
		v.Drift = len(s.Drift) > 0
		for _, h := range s.Held {
			v.Held = append(v.Held, held{h.Resource, h.Err.Error()})
		}
		views[s.Kind] = v
	}
	addPushes(views, rules.Command())
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		writeJSON(w, http.StatusOK, views)
		return
	}
	type row struct {
		Kind rule.Kind
		view
		Document string
	}
	var rows []row
	for _, k := range rule.Kinds() {
		if v, ok := views[k]; ok {
			doc, err := encode(k, rules)
			rows = append(rows, row{k, v, cmp.Or(string(doc), fmt.Sprint(err))})
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, rows) // the browser went away
}

func document(w http.ResponseWriter, name string, rules *sentinel.Rules) {
	k, err := rule.ParseKind(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	doc, err := encode(k, rules)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(doc, '\n')) // the client went away
}

// encode writes the rules in force of one kind as a Java document.
func encode(k rule.Kind, rules *sentinel.Rules) ([]byte, error) {
	switch k {
	case rule.KindFlow:
		return converter.JSON[rule.Flow]().Encode(rules.Flow().Rules())
	case rule.KindDegrade:
		return converter.JSON[rule.Degrade]().Encode(rules.Degrade().Rules())
	case rule.KindSystem:
		return converter.JSON[rule.System]().Encode(rules.System().Rules())
	case rule.KindAuthority:
		return converter.JSON[rule.Authority]().Encode(rules.Authority().Rules())
	case rule.KindParamFlow:
		return converter.JSON[rule.ParamFlow]().Encode(rules.ParamFlow().Rules())
	default:
		return converter.JSON[rule.Isolation]().Encode(rules.Isolation().Rules())
	}
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client went away
}
