package converter

import "github.com/rulewire/rulewire/rule"

// Isolation rules exist in Go only; both dialects spell them alike.
var isolationCodecs = build(func(dialect DialectName) codec[rule.Isolation] {
	type r = rule.Isolation
	s := newSchema(dialect, func(r *r) *rule.Extra { return &r.Extra }, append(entity(func(r *r) *string { return &r.ID }),
		same(req("resource"), text(func(r *r) *string { return &r.Resource })),
		same(own("metricType", "0"), typed(func(r *r) *int32 { return (*int32)(&r.MetricType) }, choice{0, "concurrency"})),
		same(req("threshold").uint32(), integer(func(r *r) *int64 { return &r.Threshold })),
		same(opt("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
	))
	s.resource = func(r *r) string { return r.Resource }
	return s
})
