package command_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/rulewire/rulewire/command"
	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/datasource/datasourcetest"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// FuzzRequest plays requests as they come off the wire. Whatever they are: no panic, an answer with a body where the
// Dashboard needs one, and the store holds a list of valid rules, changed only by what was answered with success.
func FuzzRequest(f *testing.F) {
	data, err := os.ReadFile("testdata/dashboard-requests-v1.8.9.txt")
	if err != nil {
		f.Fatal(err)
	}
	for part := range bytes.SplitSeq(data, []byte("-----\n")) {
		if head, body, ok := strings.Cut(string(part), "\r\n\r\n"); ok {
			line := strings.Fields(head)
			f.Add(line[0] == "POST", line[1], "application/x-www-form-urlencoded; charset=UTF-8", strings.TrimSuffix(body, "\n"))
		}
	}
	doc := flowDoc("a=1")
	f.Add(true, "/setRules?type=flow", "", doc)
	f.Add(true, "/setRules?type=FLOW&data=%5B%5D", "application/x-www-form-urlencoded", "data="+url.QueryEscape(url.QueryEscape(doc)))
	f.Add(false, "/setRules?type=system&data="+url.QueryEscape(`[{"qps":5,"avgRt":1}]`), "", "")
	f.Add(false, "/metric?startTime=1&endTime=9223372036854775807&identity=|", "", "")
	f.Add(false, "/tree?id=%00&%zz", "", "")
	f.Add(true, "/acceptRules?kind=flow&id=1", "text/plain", "x")

	store := datasourcetest.NewStore()
	g := &writable.Registry{}
	r, err := datasource.New(store.Source(flowKey, datasourcetest.Pulled), converter.JSON[rule.Flow](), rule.NewManager[rule.Flow](), datasource.Logger(nil))
	if err != nil {
		f.Fatal(err)
	}
	w, err := writable.New(store.Sink(flowKey, datasourcetest.Pulled), converter.JSON[rule.Flow](), writable.Readable(r), writable.Logger(nil))
	if err != nil {
		f.Fatal(err)
	}
	if err := writable.Register(g, "", writable.Pair[rule.Flow]{Readable: r, Writable: w}); err != nil {
		f.Fatal(err)
	}
	if err := r.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { r.Close() })
	c, err := command.New(command.Registry(g), command.Logger(nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { c.Close() })
	f.Fuzz(func(t *testing.T, post bool, target, kind, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || !strings.HasPrefix(target, "/") {
			t.Skip()
		}
		method, payload := http.MethodGet, ""
		if post {
			method, payload = http.MethodPost, body
		}
		req := httptest.NewRequest(method, "http://127.0.0.1/", strings.NewReader(payload))
		req.URL, req.RequestURI = u, target
		if kind != "" {
			req.Header.Set("Content-Type", kind)
		}
		before, err := w.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, req)
		text := answer.Body.String()
		if answer.Code == http.StatusInternalServerError || answer.Code < 200 || answer.Code > 599 {
			t.Errorf("%d %s", answer.Code, text)
		}
		if strings.HasPrefix(u.Path, "/get") && answer.Code == 200 && (text == "" || text == "null") {
			t.Errorf("%s answered %q", u.Path, text)
		}
		after, err := w.Read(t.Context())
		if err != nil {
			t.Fatal(err) // the document does not even parse
		}
		for i := range after.Rules {
			if err := after.Rules[i].Validate(); err != nil {
				t.Errorf("stored: %v", err)
			}
		}
		if text != "success" && after.Revision != before.Revision {
			t.Errorf("%d %s, but the store changed", answer.Code, text)
		}
	})
}
