package writable_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

var update = flag.Bool("update", false, "write the golden files anew")

// edited is the rule that the edit of these tests changes; every document has one.
const edited = 1

// The documents of testdata/keep hold what people, consoles, Java programs, newer versions and Go programs may have
// written. One rule is edited; the golden file beside each document is what then must be in the store.
//
// faults: F010 F038 F042 F044 F142 F159
func TestAnEditOfOneRuleKeepsAllThatItDoesNotTouch(t *testing.T) {
	t.Run("flow", func(t *testing.T) { keeps(t, rule.KindFlow, func(r *rule.Flow) { r.Count = 99 }) })
	t.Run("degrade", func(t *testing.T) { keeps(t, rule.KindDegrade, func(r *rule.Degrade) { r.Count = 99 }) })
	t.Run("system", func(t *testing.T) { keeps(t, rule.KindSystem, func(r *rule.System) { r.QPS = 99 }) })
	t.Run("authority", func(t *testing.T) { keeps(t, rule.KindAuthority, func(r *rule.Authority) { r.LimitApp = "appZ" }) })
	t.Run("param-flow", func(t *testing.T) { keeps(t, rule.KindParamFlow, func(r *rule.ParamFlow) { r.Count = 99 }) })
	t.Run("isolation", func(t *testing.T) { keeps(t, rule.KindIsolation, func(r *rule.Isolation) { r.Threshold = 99 }) })
}

func keeps[R any](t *testing.T, kind rule.Kind, change func(*R)) {
	documents, err := filepath.Glob(filepath.Join("testdata", "keep", string(kind)+".*.before.*"))
	if err != nil || len(documents) < 2 {
		t.Fatal("a document in each dialect is missing", documents, err)
	}
	for _, path := range documents {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			parts := strings.Split(name, ".") // kind, dialect, "before", format
			convert := converter.JSON[R]
			if parts[3] == "yaml" {
				convert = converter.YAML[R]
			}
			conv := convert(converter.Dialect(converter.DialectName(parts[1])))
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			store := datasourcetest.NewStore()
			store.Put(docKey, before)
			w, err := writable.New(store.Sink(docKey, datasourcetest.Pushed), conv, writable.Logger(nil))
			if err != nil {
				t.Fatal(err)
			}
			var old []R
			res, err := w.Edit(t.Context(), func(rules []R) ([]R, error) {
				old = rule.TraitsOf[R]().CloneAll(rules)
				change(&rules[edited])
				return rules, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Changes.Changed) != 1 || len(res.Changes.Added)+len(res.Changes.Removed) != 0 || res.Changes.Reordered {
				t.Errorf("changes: %s", res.Changes)
			}
			after, err := w.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for i := range old {
				if equal := rule.TraitsOf[R]().Equal(&old[i], &after.Rules[i]); equal == (i == edited) {
					t.Errorf("rule %d: %s", i, rule.DescribeChange(&old[i], &after.Rules[i]))
				}
			}
			golden(t, strings.Replace(path, ".before.", ".after.", 1), after.Document.Data)
			keepsUnknown(t, before, after.Document.Data)

			// No rules are [] in every dialect and format, never null.
			if _, err := w.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
			if empty := strings.TrimSpace(stored(t, store)); empty != "[]" {
				t.Errorf("no rules are %q", empty)
			}
		})
	}
}

// keepsUnknown looks for the members that nobody knows in the text itself.
func keepsUnknown(t *testing.T, before, after []byte) {
	t.Helper()
	for _, name := range []string{"futureMember", "aNote", "newInCluster", "newInItem", "inner", "extraOfTheEdited", "textId"} {
		if was, is := bytes.Count(before, []byte(name)), bytes.Count(after, []byte(name)); was != is {
			t.Errorf("%s was there %d times and is %d times", name, was, is)
		}
	}
	if bytes.Contains(after, []byte("gmtCreate")) {
		t.Error("a console's entity members are written")
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: now\n%s\nwant\n%s", path, got, want)
	}
}

// A file that people edit keeps its lines.
func TestTheLayoutOfADocumentStays(t *testing.T) {
	const a, b = `{"clusterMode":false,"controlBehavior":0,"count":1,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":"[a,\n{","strategy":0,"warmUpPeriodSec":10}`,
		`{"clusterMode":false,"controlBehavior":0,"count":2,"grade":1,"limitApp":"default","maxQueueingTimeMs":500,"regex":false,"resource":"b","strategy":0,"warmUpPeriodSec":10}`
	const rule1 = `{"resource":"[a,\n{","count":1}`
	for name, c := range map[string]struct{ before, after string }{
		"one line":                {`[` + rule1 + `]`, `[` + a + `,` + b + `]`},
		"one line, ended":         {`[` + rule1 + "]\n", `[` + a + `,` + b + "]\n"},
		"a line for each":         {"[\n" + rule1 + "\n]", "[\n" + a + ",\n" + b + "\n]"},
		"each indented":           {"[\n   " + rule1 + "\n]\n", "[\n   " + a + ",\n   " + b + "\n]\n"},
		"CRLF":                    {"\xef\xbb\xbf[\r\n\t" + rule1 + "\r\n]\r\n", "[\n\t" + a + ",\n\t" + b + "\n]\n"},
		"LF CR, members apart":    {"[\n\r {\n\r\"resource\":\"[a,\\n{\",\"count\":1}\n\r]\n", ""},
		"LF CR":                   {"[\n\r " + rule1 + "\n\r]", "[\n " + a + ",\n " + b + "\n]"},
		"first rule beside [":     {"[" + rule1 + "\n]", `[` + a + `,` + b + `]`},
		"members indented by 1":   {"[\n {\n  \"resource\": \"[a,\\n{\",\n  \"count\": 1\n }\n]\n", ""},
		"an empty list, ended":    {"[]\n", `[` + b + "]\n"},
		"a list empty over lines": {"[\n]", "[\n" + b + "\n]"},
		"nothing":                 {"", `[` + b + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			store := datasourcetest.NewStore()
			if c.before != "" {
				store.Put(docKey, []byte(c.before))
			}
			w := alone(t, store.Sink(docKey, datasourcetest.Pushed))
			if _, err := w.Edit(t.Context(), add(flow("b", 2))); err != nil {
				t.Fatal(err)
			}
			got := stored(t, store)
			if c.after == "" {
				if lines := strings.Count(got, "\n"); lines != 2+2*12 || !strings.HasPrefix(got, "[\n {\n  \"clusterMode\": false,\n") {
					t.Errorf("%d lines\n%s", lines, got)
				}
				c.after = got
			}
			if got != c.after {
				t.Errorf("now\n%s\nwant\n%s", got, c.after)
			}
			if names := resources(decoded(t, store)); names[len(names)-1] != "b" {
				t.Errorf("%v", names)
			}
		})
	}
}
