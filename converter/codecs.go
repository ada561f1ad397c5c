package converter

// A schema is the codec of a rule that has the same shape as its objects.

func (s *schema[R]) traits() (bool, func(string, func(string) (string, bool)) string) {
	return s.wrapped, func(field string, _ func(string) (string, bool)) string {
		if name, ok := s.spelled[field]; ok {
			return name
		}
		return field
	}
}

func (s *schema[R]) name(r *R) string {
	if s.resource == nil {
		return ""
	}
	return s.resource(r)
}

// shaped is the codec of a rule whose objects have another shape, W, than the rule.
type shaped[W, T any] struct {
	*schema[W]
	// rule takes the rule out of what was read, after the schema's finish.
	rule func(w *W) T
	// wire turns a rule into the objects that are written: one or several.
	wire func(w *writer, r *T) []W
	// resource gives the rule's resource, for messages.
	resource func(r *T) string
	// spell, where set, says how the dialect calls a member.
	spell func(field string, has func(string) (string, bool)) string
}

func (s *shaped[W, T]) read(d *reader, r *T) {
	var w W
	s.schema.read(d, &w)
	*r = s.rule(&w)
}

func (s *shaped[W, T]) write(w *writer, b []byte, r *T) []byte {
	for i, object := range s.wire(w, r) {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.schema.write(w, b, &object)
	}
	return b
}

func (s *shaped[W, T]) traits() (bool, func(string, func(string) (string, bool)) string) {
	wrapped, spell := s.schema.traits()
	if s.spell != nil {
		spell = s.spell
	}
	return wrapped, spell
}

func (s *shaped[W, T]) name(r *T) string {
	if s.resource == nil {
		return ""
	}
	return s.resource(r)
}

// perDialect builds the codec of a kind once for each dialect.
type perDialect[T any] map[DialectName]codec[T]

func build[T any](of func(DialectName) codec[T]) perDialect[T] {
	return perDialect[T]{Java: of(Java), Golang: of(Golang)}
}

// entity is what every rule object may hold beside the rule: the Dashboard's own members.
func entity[R any](id func(*R) *string) []field[R] {
	drop := spelling{mode: metadata}
	fields := []field[R]{
		{java: opt("id", ""), value: longIdent(id)},
		{java: opt("textId", ""), value: textIdent(id)},
		{golang: opt("id", ""), value: ident(id)},
	}
	for _, name := range []string{"app", "ip", "port", "gmtCreate", "gmtModified"} {
		drop.name = name
		fields = append(fields, field[R]{java: drop, golang: drop, value: ignored[R]()})
	}
	return fields
}

// same spells a member alike in both dialects.
func same[R any](s spelling, v value[R]) field[R] { return field[R]{java: s, golang: s, value: v} }

// java and golang are members of one dialect.
func java[R any](s spelling, v value[R]) field[R]   { return field[R]{java: s, value: v} }
func golang[R any](s spelling, v value[R]) field[R] { return field[R]{golang: s, value: v} }

// both spells a member of both dialects.
func both[R any](j, g spelling, v value[R]) field[R] { return field[R]{java: j, golang: g, value: v} }
