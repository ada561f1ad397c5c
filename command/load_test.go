package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rulewire/rulewire/datasource/datasourcetest"
)

// loadTime is how long the clients go on; the issue asks for 30 s, which RULEWIRE_LOAD=30s gives.
func loadTime(t *testing.T) time.Duration {
	if text := os.Getenv("RULEWIRE_LOAD"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return 3 * time.Second
}

// Each of 200 clients reads the page, adds or changes its own rule, and pushes the whole list, as the Dashboard does, all
// through two machines. Whatever was answered with success is in the store at the end.
//
// faults: F154 F156
func TestNoEditThatWasAnsweredWithSuccessIsLostUnderLoad(t *testing.T) {
	const clients = 200
	store := datasourcetest.NewStore()
	machines := []*process{start(t, store), start(t, store)}
	ctx, cancel := context.WithTimeout(t.Context(), loadTime(t))
	defer cancel()
	tr := &http.Transport{MaxIdleConnsPerHost: clients}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: 30 * time.Second}
	ask := func(req *http.Request, err error) (int, string) {
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		req.Header.Set("User-Agent", "Apache-HttpAsyncClient/4.1.5 (Java/17.0.15)") // all of them one Dashboard
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(body)
	}
	var done [clients]int // the value of each client's last success
	var pushes, successes, held atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			name := fmt.Sprintf("client-%03d", i)
			m := machines[i%2]
			for n := 1; ctx.Err() == nil; n++ {
				status, page := ask(http.NewRequest(http.MethodGet, m.url+"/getRules?type=flow", nil))
				var rules []map[string]any
				if err := json.Unmarshal([]byte(page), &rules); err != nil || status != 200 {
					t.Errorf("read: %d %v", status, err)
					return
				}
				found := false
				for _, r := range rules {
					if r["resource"] == name {
						r["count"], found = n, true
					}
				}
				if !found {
					rules = append(rules, map[string]any{"resource": name, "count": n, "grade": 1})
				}
				data, err := json.Marshal(rules)
				if err != nil {
					t.Error(err)
					return
				}
				form := url.Values{"type": {"flow"}, "data": {string(data)}}.Encode()
				req, err := http.NewRequest(http.MethodPost, m.url+"/setRules", strings.NewReader(form))
				if err == nil {
					req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8")
				}
				pushes.Add(1)
				switch status, text := ask(req, err); {
				case status == 200 && text == "success":
					successes.Add(1)
					done[i] = n
				case status == 400 && strings.Contains(text, "stale push"):
					held.Add(1)
				case status == 500 && strings.Contains(text, "partial success"), status == 503:
					// Not in time, on a machine with other work: whether it is stored is not known.
					return
				case status != 0:
					t.Errorf("push: %d %.200s", status, text)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d pushes, %d successes, %d held back", pushes.Load(), successes.Load(), held.Load())
	if successes.Load() == 0 {
		t.Fatal("no success")
	}
	have := make(map[string]float64)
	var rules []struct {
		Resource string
		Count    float64
	}
	if err := json.Unmarshal([]byte(machines[0].stored(flowKey)), &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		if _, twice := have[r.Resource]; twice {
			t.Errorf("%s is there twice", r.Resource)
		}
		have[r.Resource] = r.Count
	}
	for i, n := range done {
		if got := have[fmt.Sprintf("client-%03d", i)]; n > 0 && int(got) < n {
			t.Errorf("client %d: stored %g, answered success for %d", i, got, n)
		}
	}
	for _, m := range machines {
		until(t, "both machines have what the store has", func() bool { return flows(t, m.read("flow")) == flows(t, m.stored(flowKey)) })
	}
}
