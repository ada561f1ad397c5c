package datasourcetest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
)

// payload is a document that somebody really stored, and what it must do: replace the rules in force by want, or be
// refused for cause. The outcome is the same from every store.
type payload[T any] struct {
	name string
	seed string // instead of the kind's
	data string
	want string
	// cause refuses it, and the error says why in these words.
	cause datasource.Cause
	says  []string
	conv  []converter.Option
	opts  []datasource.Option
}

// kind is what the payloads of one kind of rule have in common.
type kind[T any] struct {
	seed string
	show func(*T) string
}

// play puts the payload while the kind's seed is in force.
func (k kind[T]) play(x *play, p payload[T]) {
	x.Helper()
	x.put([]byte(cmp.Or(p.seed, k.seed)))
	told := make(chan string, 100)
	listener := property.ListenerFunc[[]T](func(_ context.Context, rules []T) error {
		parts := make([]string, len(rules))
		for i := range rules {
			parts[i] = k.show(&rules[i])
		}
		told <- strings.Join(parts, "; ")
		return nil
	})
	opts := append([]datasource.Option{
		datasource.Logger(nil), datasource.Interval(x.c.Interval), datasource.Relist(quiet),
		datasource.WithObserver(datasource.ObserverFunc(func(datasource.Event) { x.signal.notify() })),
	}, x.c.Options...)
	r, err := datasource.New(x.source(), converter.JSON[T](p.conv...), listener, append(opts, p.opts...)...)
	if err != nil {
		x.Fatal("datasource.New:", err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			x.Error("Close:", err)
		}
	}()
	if err := r.Start(context.Background()); err != nil {
		x.Fatal("Start:", err)
	}
	<-told
	x.put([]byte(p.data))
	x.eventually(x.latency(), func() string {
		s := r.Status()
		if s.Cause != p.cause || p.cause == datasource.CauseNone && s.Counts.Applied < 2 {
			return fmt.Sprintf("cause %q (%v), want %q", s.Cause, s.LastError, p.cause)
		}
		return ""
	})
	if p.cause == datasource.CauseNone {
		if got := <-told; got != p.want {
			x.Errorf("in force:\n%s\nwant:\n%s", got, p.want)
		}
		return
	}
	select {
	case got := <-told:
		x.Errorf("in force: %q, want it refused", got)
	default:
	}
	for _, words := range p.says {
		if text := r.Status().LastError.Error(); !strings.Contains(text, words) {
			x.Errorf("the error does not say %q:\n%s", words, text)
		}
	}
}

func scenes[T any](k kind[T], payloads ...payload[T]) []scene {
	list := make([]scene, len(payloads))
	for i, p := range payloads {
		list[i] = scene{p.name, func(x *play) { k.play(x, p) }}
	}
	return list
}

// Every payload of the fault catalogue that a rule store can hold, in the Java dialect.
//
// faults: F006 F021 F023 F026 F028 F034 F035 F036 F037 F039 F041 F045 F051 F054 F055 F060
func payloadGroup() group {
	flow := kind[rule.Flow]{
		seed: `[{"resource":"/seed","count":5}]`,
		show: func(r *rule.Flow) string {
			return fmt.Sprintf("%s %s %g behavior %d warm %d queue %d", r.ID, r.Resource, r.Count, r.ControlBehavior, r.WarmUpPeriodSec, r.MaxQueueingTimeMs)
		},
	}
	param := kind[rule.ParamFlow]{
		seed: `[{"resource":"/seed","paramIdx":0,"count":5}]`,
		show: func(r *rule.ParamFlow) string {
			items := ""
			for _, i := range r.Items {
				items += fmt.Sprintf(" %s:%s=%d", i.ClassType, i.Object, i.Count)
			}
			return fmt.Sprintf("%s %g per %d s%s", r.Resource, r.Count, r.DurationInSec, items)
		},
	}
	degrade := kind[rule.Degrade]{
		seed: `[{"resource":"/seed","count":5,"timeWindow":1}]`,
		show: func(r *rule.Degrade) string {
			return fmt.Sprintf("%s grade %d count %g ratio %g window %d", r.Resource, r.Grade, r.Count, r.SlowRatioThreshold, r.TimeWindowMs)
		},
	}
	system := kind[rule.System]{
		seed: `[{"avgRt":5}]`,
		show: func(r *rule.System) string {
			return fmt.Sprintf("load %g cpu %g rt %d threads %d qps %g", r.HighestSystemLoad, r.HighestCPUUsage, r.AvgRT, r.MaxThread, r.QPS)
		},
	}
	const (
		empty   = datasource.CauseEmpty
		decode  = datasource.CauseDecode
		invalid = datasource.CauseInvalid
	)
	console := `[{"id":11,"app":"shop","ip":"10.0.0.7","port":8719,"gmtCreate":1700000000000,"gmtModified":1700000005000,"resource":"/order/create",` +
		`"limitApp":"default","grade":1,"count":50.0,"strategy":0,"refResource":null,"controlBehavior":0,"warmUpPeriodSec":null,"maxQueueingTimeMs":null,` +
		`"clusterMode":false,"clusterConfig":{"flowId":null,"thresholdType":0,"fallbackToLocalWhenFail":true,"strategy":0,"sampleCount":10,"windowIntervalMs":1000}}]`
	behaviors := `[{"resource":"r0","grade":1,"count":10,"controlBehavior":0},{"resource":"r1","grade":1,"count":10,"controlBehavior":1},` +
		`{"resource":"r2","grade":1,"count":10,"controlBehavior":2},{"resource":"r3","grade":1,"count":10,"controlBehavior":3}]`
	halfBad := `[{"resource":"a","count":9},{"resource":"","count":1},{"resource":"b","count":-1},{"resource":"c","count":1,"controlBehavior":9}]`
	hotspot := `[{"app":"shop","id":3,"gmtCreate":1700000000000,"rule":{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,"durationInSec":5,"burstCount":0,` +
		`"controlBehavior":0,"maxQueueingTimeMs":0,"limitApp":"default","clusterMode":false,"paramFlowItemList":[{"object":"42","classType":"int","count":100},` +
		`{"object":"vip","classType":"java.lang.String","count":7}%s]}}]`
	slow := `[{"resource":"stock","grade":0,"count":200,"timeWindow":10,"minRequestAmount":5,"statIntervalMs":1000%s}]`
	one := `[{"resource":"a","count":7}]`
	aIs7 := " a 7 behavior 0 warm 10 queue 500"

	g := group{name: "Payloads"}
	g.scenes = append(g.scenes, scenes(flow,
		payload[rule.Flow]{name: "ConsoleFlow", data: console, want: "11 /order/create 50 behavior 0 warm 10 queue 500"},
		payload[rule.Flow]{name: "JavaInGoDialect", seed: `[{"resource":"/seed","threshold":5}]`, data: console, cause: decode, says: []string{"threshold"}, conv: []converter.Option{converter.Dialect(converter.Golang)}},
		payload[rule.Flow]{name: "ControlBehaviors", data: behaviors,
			want: " r0 10 behavior 0 warm 10 queue 500;  r1 10 behavior 1 warm 10 queue 500;  r2 10 behavior 2 warm 10 queue 500;  r3 10 behavior 3 warm 10 queue 500"},
		payload[rule.Flow]{name: "IntegralFloat", data: `[{"resource":"a","count":7,"maxQueueingTimeMs":5e2,"grade":1.0}]`, want: aIs7},
		payload[rule.Flow]{name: "ByteOrderMark", data: "\xef\xbb\xbf" + one, want: aIs7},
		payload[rule.Flow]{name: "UTF16", data: utf16LE(one), want: aIs7},
		payload[rule.Flow]{name: "LoneByteOrderMark", data: "\xef\xbb\xbf", cause: empty},
		payload[rule.Flow]{name: "OneObject", data: `{"resource":"a","count":7}`, cause: decode, says: []string{"array", "object"}},
		payload[rule.Flow]{name: "OneObjectAllowed", data: `{"resource":"a","count":7}`, want: aIs7, conv: []converter.Option{converter.AllowSingle()}},
		payload[rule.Flow]{name: "Misspelt", data: `[{"resource":"a","cuont":100}]`, cause: decode, says: []string{"cuont", "count"}},
		payload[rule.Flow]{name: "UnknownMember", data: `[{"resource":"a","count":7,"note":"x"}]`, want: aIs7},
		payload[rule.Flow]{name: "UnknownMemberRefused", data: `[{"resource":"a","count":7,"note":"x"}]`, cause: decode, says: []string{"note"}, conv: []converter.Option{converter.UnknownMembers(converter.Refuse)}},
		payload[rule.Flow]{name: "SignInPage", data: "<html><body>Please sign in</body></html>", cause: decode},
		payload[rule.Flow]{name: "ErrorAnswer", data: `{"code":403,"message":"forbidden"}`, cause: decode},
		payload[rule.Flow]{name: "ApolloAnswer", data: `{"appId":"x","configurations":{"content":"[]"}}`, cause: decode},
		payload[rule.Flow]{name: "EmptyObject", data: "{}", cause: decode},
		payload[rule.Flow]{name: "EmptyRule", data: "[{}]", cause: invalid},
		payload[rule.Flow]{name: "NullRule", data: "[null]", cause: decode, says: []string{"0"}},
		payload[rule.Flow]{name: "HalfBad", data: halfBad, cause: invalid, says: []string{"/1", "/2", "/3"}},
		payload[rule.Flow]{name: "HalfBadSkipped", data: halfBad, want: " a 9 behavior 0 warm 10 queue 500", opts: []datasource.Option{datasource.OnInvalid(datasource.SkipRule)}},
	)...)
	g.scenes = append(g.scenes, scenes(param,
		payload[rule.ParamFlow]{name: "HotspotWrapped", data: fmt.Sprintf(hotspot, ""), want: "/user/{id} 3 per 5 s int:42=100 java.lang.String:vip=7"},
		payload[rule.ParamFlow]{name: "HotspotUnwrapped", data: `[{"resource":"/user/{id}","grade":1,"paramIdx":0,"count":3.0,"durationInSec":5,"paramFlowItemList":[{"object":"42","classType":"int","count":100},{"object":"vip","classType":"java.lang.String","count":7}]}]`,
			want: "/user/{id} 3 per 5 s int:42=100 java.lang.String:vip=7"},
		payload[rule.ParamFlow]{name: "HotspotBadItem", data: fmt.Sprintf(hotspot, `,{"object":"x9","classType":"long","count":1}`), cause: invalid, says: []string{"paramFlowItemList"}},
	)...)
	g.scenes = append(g.scenes, scenes(degrade,
		payload[rule.Degrade]{name: "DegradeDefaults", data: fmt.Sprintf(slow, ""), want: "stock grade 0 count 200 ratio 1 window 10000"},
		payload[rule.Degrade]{name: "DegradeRatio", data: fmt.Sprintf(slow, `,"slowRatioThreshold":0.4`), want: "stock grade 0 count 200 ratio 0.4 window 10000"},
		payload[rule.Degrade]{name: "DegradeErrorRatio", data: strings.Replace(fmt.Sprintf(slow, ""), `"grade":0,"count":200`, `"grade":1,"count":0.3`, 1), want: "stock grade 1 count 0.3 ratio 1 window 10000"},
		payload[rule.Degrade]{name: "DegradeErrorCount", data: strings.Replace(fmt.Sprintf(slow, ""), `"grade":0,"count":200`, `"grade":2,"count":7`, 1), want: "stock grade 2 count 7 ratio 1 window 10000"},
	)...)
	g.scenes = append(g.scenes, scenes(system,
		payload[rule.System]{name: "System", data: `[{"highestSystemLoad":-1,"highestCpuUsage":0.8,"qps":500,"avgRt":-1,"maxThread":0}]`, want: "load -1 cpu 0.8 rt -1 threads 0 qps 500"},
	)...)
	return g
}

// utf16LE is what some Windows editors save.
func utf16LE(text string) string {
	b := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return string(b)
}
