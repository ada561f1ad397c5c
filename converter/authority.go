package converter

import "github.com/rulewire/rulewire/rule"

// Authority rules exist in Java only; both dialects spell them alike.
var authorityCodecs = build(func(dialect DialectName) codec[rule.Authority] {
	type r = rule.Authority
	s := newSchema(dialect, func(r *r) *rule.Extra { return &r.Extra }, append(entity(func(r *r) *string { return &r.ID }),
		same(req("resource"), text(func(r *r) *string { return &r.Resource })),
		same(req("limitApp"), text(func(r *r) *string { return &r.LimitApp })),
		same(own("strategy", "0"), typed(func(r *r) *int32 { return (*int32)(&r.Strategy) },
			choice{0, "white list"}, choice{1, "black list"})),
		same(own("regex", ""), flag(func(r *r) *bool { return &r.Regex })),
	))
	s.resource = func(r *r) string { return r.Resource }
	s.wrapped = true
	return s
})
