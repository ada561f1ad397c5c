package command

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rulewire/rulewire/rule"
)

type apiView struct {
	URL         string `json:"url"`
	Description string `json:"desc"`
}

type systemView struct {
	SuccessQPS float64 `json:"rqps"`
	PassQPS    float64 `json:"qps"`
	BlockQPS   float64 `json:"b"`
	AverageRT  float64 `json:"r"`
	Threads    int64   `json:"t"`
}

type clusterView struct {
	Mode            int   `json:"mode"`
	LastModified    int64 `json:"lastModified"`
	ClientAvailable bool  `json:"clientAvailable"`
	ServerAvailable bool  `json:"serverAvailable"`
}

type pendingView struct {
	Kind    rule.Kind `json:"kind"`
	ID      string    `json:"id"`
	Actor   string    `json:"actor"`
	Since   time.Time `json:"since"`
	Rules   int       `json:"rules"`
	Added   int       `json:"added"`
	Changed int       `json:"changed"`
	Removed int       `json:"removed"`
	Diff    []string  `json:"diff"`
}

// builtin are the commands of the Java client, and two of our own for held pushes.
func (c *Centre) builtin() []Command {
	read := func(name, description string, run func(r *Request) (Answer, error)) Command {
		return Command{Name: name, Description: description, Run: func(_ context.Context, r *Request) (Answer, error) { return run(r) }}
	}
	edit := func(name, description string, run func(ctx context.Context, r *Request) (Answer, error)) Command {
		return Command{Name: name, Description: description, Edits: true, Run: run}
	}
	return []Command{
		read("version", "get the Sentinel version that is spoken", func(*Request) (Answer, error) { return Text(c.opts.version), nil }),
		read("api", "get all commands", func(*Request) (Answer, error) { return encode(c.apis()), nil }),
		read("basicInfo", "get host name and address", func(*Request) (Answer, error) { return encode(c.basicInfo()), nil }),
		read("getRules", "get the rules in force, type={flow|degrade|system|authority|isolation}", func(r *Request) (Answer, error) {
			kind, err := pageKind(r.Param("type"))
			if err != nil {
				return Answer{}, err
			}
			return c.getRules(kind, r), nil
		}),
		edit("setRules", "set the rules of one type: type={flow|degrade|system|authority|isolation}&data={list of rules}", func(ctx context.Context, r *Request) (Answer, error) {
			kind, err := pageKind(r.Param("type"))
			if err != nil {
				return Answer{}, err
			}
			return c.setRules(ctx, kind, r)
		}),
		read("getParamFlowRules", "get the hot-parameter rules in force", func(r *Request) (Answer, error) { return c.getRules(rule.KindParamFlow, r), nil }),
		edit("setParamFlowRules", "set the hot-parameter rules: data={list of rules}", func(ctx context.Context, r *Request) (Answer, error) {
			return c.setRules(ctx, rule.KindParamFlow, r)
		}),
		read("pendingRules", "get the pushes that were held back", func(*Request) (Answer, error) { return encode(c.pendingViews()), nil }),
		edit("acceptRules", "carry a held push through: kind={kind}&id={id}", c.acceptRules),

		read("metric", "get figures by the second: startTime={ms}[&endTime={ms}][&identity={resource}][&maxLines={n}]", c.metric),
		read("jsonTree", "get the tree of resources as JSON", func(*Request) (Answer, error) { return encode(c.tree()), nil }),
		read("tree", "get the tree of resources as text, [id={resource}]", func(r *Request) (Answer, error) { return Text(c.treeText(r.Param("id"))), nil }),
		read("clusterNode", "get all resources, type=notZero leaves out those without traffic in the last minute", c.clusterNode),
		read("clusterNodeById", "get one resource: id={resource}", c.clusterNodeByID),
		read("cnode", "get resources as a table: id={part of the name}", func(r *Request) (Answer, error) {
			if r.Param("id") == "" {
				return Answer{}, bad(textEmptyNode)
			}
			return Text(c.table(r.Param("id"))), nil
		}),
		read("origin", "get the origins of a resource: id={resource}", func(r *Request) (Answer, error) { return Text(c.origins(r.Param("id"))), nil }),
		read("systemStatus", "get the inbound traffic", func(*Request) (Answer, error) { return encode(c.systemStatus()), nil }),

		read("getClusterMode", "get the cluster mode: none", func(*Request) (Answer, error) {
			return encode(clusterView{Mode: -1, LastModified: -1}), nil
		}),
		edit("setClusterMode", "not supported", func(context.Context, *Request) (Answer, error) { return Answer{}, bad(textNoCluster) }),
		read("getSwitch", "get the switch of the engine: always on", func(*Request) (Answer, error) { return Text("Sentinel switch value: true"), nil }),
		edit("setSwitch", "set the switch of the engine: value=true only", func(_ context.Context, r *Request) (Answer, error) {
			value := r.Param("value")
			if !strings.EqualFold(value, "true") {
				return Answer{}, bad(textNoSwitch)
			}
			return Text("Sentinel set switch value: " + value), nil
		}),

		read("gateway/getRules", "get the gateway rules: none", func(*Request) (Answer, error) { return Answer{Body: []byte("[]"), JSON: true}, nil }),
		read("gateway/getApiDefinitions", "get the API groups: none", func(*Request) (Answer, error) { return Answer{Body: []byte("[]"), JSON: true}, nil }),
		edit("gateway/updateRules", "not supported, but for none", noGateway),
		edit("gateway/updateApiDefinitions", "not supported, but for none", noGateway),
	}
}

// noGateway takes the list of none, as a client that has none.
func noGateway(_ context.Context, r *Request) (Answer, error) {
	data, err := r.document()
	if err != nil {
		return Answer{}, err
	}
	if strings.Join(strings.Fields(string(data)), "") != "[]" {
		return Answer{}, bad(textNoGateway)
	}
	return Text(textSuccess), nil
}

// pageKind reads parameter type. Hot-parameter rules have commands of their own.
func pageKind(text string) (rule.Kind, error) {
	for _, k := range []rule.Kind{rule.KindFlow, rule.KindDegrade, rule.KindSystem, rule.KindAuthority, rule.KindIsolation} {
		if strings.EqualFold(text, string(k)) {
			return k, nil
		}
	}
	return "", bad(textInvalidType)
}

func (c *Centre) getRules(kind rule.Kind, r *Request) Answer {
	if k, ok := c.rules[kind]; ok {
		return Answer{Body: k.read(r.peer), JSON: true}
	}
	return Answer{Body: []byte("[]"), JSON: true}
}

func (c *Centre) setRules(ctx context.Context, kind rule.Kind, r *Request) (Answer, error) {
	data, err := r.document()
	if err == nil {
		err = c.edit(ctx, kind, func(ctx context.Context) error {
			k, ok := c.rules[kind]
			if !ok {
				return failf(http.StatusBadRequest, "no %s rules can be set here: nothing is registered for them", kind)
			}
			return k.set(ctx, data, pusher{r.Actor, r.peer})
		})
	}
	if err != nil {
		return Answer{}, err
	}
	return Text(textSuccess), nil
}

func (c *Centre) acceptRules(ctx context.Context, r *Request) (Answer, error) {
	kind, err := rule.ParseKind(r.Param("kind"))
	if err != nil {
		return Answer{}, &StatusError{http.StatusBadRequest, err}
	}
	if err := c.edit(ctx, kind, func(ctx context.Context) error { return c.Accept(ctx, kind, r.Param("id")) }); err != nil {
		return Answer{}, err
	}
	return Text(textSuccess), nil
}

func (c *Centre) pendingViews() []pendingView {
	all := []pendingView{}
	for _, p := range c.Pending() {
		all = append(all, pendingView(p))
	}
	return all
}

func (c *Centre) apis() []apiView {
	all := make([]apiView, 0, len(c.commands))
	for _, name := range slices.Sorted(maps.Keys(c.commands)) {
		all = append(all, apiView{"/" + name, c.commands[name].Description})
	}
	return all
}

func (c *Centre) basicInfo() map[string]string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	ip := c.beat.get().IP
	if !ip.IsValid() {
		ip = c.opts.ip
	}
	if !ip.IsValid() {
		ip = ownIP(c.Addr())
	}
	return map[string]string{"machine": host, "ip": ip.String()}
}

func (c *Centre) systemStatus() systemView {
	if c.opts.stats == nil {
		return systemView{}
	}
	n := c.opts.stats.Inbound()
	return systemView{n.SuccessQPS, n.PassQPS, n.BlockQPS, n.AverageRT, n.Threads}
}

// The Java client's bounds of `metric` without an end. Source: SendMetricCommandHandler.
const (
	metricLines     = 6000
	metricLinesMost = 12000
)

func (c *Centre) metric(r *Request) (Answer, error) {
	startText := strings.TrimSpace(r.Param("startTime"))
	if startText == "" {
		return Text(""), nil
	}
	start, err := strconv.ParseInt(startText, 10, 64)
	if err != nil {
		return Answer{}, failf(http.StatusBadRequest, "startTime: %w", errors.Unwrap(err))
	}
	end, lines := int64(math.MaxInt64), 0
	if text := strings.TrimSpace(r.Param("endTime")); text != "" {
		if end, err = strconv.ParseInt(text, 10, 64); err != nil {
			return Answer{}, failf(http.StatusBadRequest, "endTime: %w", errors.Unwrap(err))
		}
	} else {
		lines = metricLines
		if text := strings.TrimSpace(r.Param("maxLines")); text != "" {
			if lines, err = strconv.Atoi(text); err != nil || lines < 1 {
				return Answer{}, failf(http.StatusBadRequest, "maxLines: want a positive number")
			}
			lines = min(lines, metricLinesMost)
		}
	}
	// A second belongs to the range if its first millisecond does.
	first := start / 1000
	if start%1000 > 0 {
		first++
	}
	return Text(c.ring.text(first, end/1000, r.Param("identity"), lines)), nil
}

func (c *Centre) clusterNode(r *Request) (Answer, error) {
	_, all := c.nodes()
	if strings.EqualFold(r.Param("type"), "notZero") {
		all = slices.DeleteFunc(all, func(n nodeView) bool { return n.OneMinuteTotal == 0 })
	}
	return encode(all), nil
}

func (c *Centre) clusterNodeByID(r *Request) (Answer, error) {
	id := r.Param("id")
	if id == "" {
		return Answer{}, bad(textEmptyNode)
	}
	_, all := c.nodes()
	if i := slices.IndexFunc(all, func(n nodeView) bool { return n.Resource == id }); i >= 0 {
		return encode(all[i]), nil
	}
	return encode(struct{}{}), nil
}
