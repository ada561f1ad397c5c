package sentinel_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/alibaba/sentinel-golang/api"
	"github.com/alibaba/sentinel-golang/core/flow"
	"github.com/alibaba/sentinel-golang/core/isolation"

	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/sentinel"
)

// text is a source that always has the same document; packages file, etcd, redis and so on have real ones.
type text string

func (t text) ID() string { return "text" }

func (t text) Read(context.Context) (datasource.Document, error) {
	return datasource.Document{Presence: datasource.Present, Data: []byte(t), Revision: "1"}, nil
}

func Example() {
	defer func() { _, _ = flow.ClearRules(), isolation.ClearRules() }() // only because examples share a process

	rules, err := sentinel.Open(context.Background(),
		sentinel.Flow(text(`[
			{"resource": "/order", "count": 0},
			{"resource": "/stock", "count": 20, "grade": 0},
			{"resource": "/admin", "count": 5, "limitApp": "console"}
		]`), sentinel.Unsupported(sentinel.Hold)),
		sentinel.Logger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rules.Close() // the rules stay in force

	_, blocked := api.Entry("/order")
	fmt.Println("order:", blocked.BlockType())
	for _, s := range rules.Status() {
		fmt.Println(s.Kind, s.Sources[0].State, s.Rules, "rules,", s.Live, "live in the core")
		for _, h := range s.Held {
			fmt.Println("held:", h.Resource)
		}
	}
	fmt.Println(len(rules.Flow().Lookup("/stock")), "rule for /stock, concurrent calls:", rules.Flow().Lookup("/stock")[0].Grade == rule.GradeThread)
	// Output:
	// order: BlockTypeFlowControl
	// flow live 3 rules, 2 live in the core
	// held: /admin
	// 1 rule for /stock, concurrent calls: true
}
