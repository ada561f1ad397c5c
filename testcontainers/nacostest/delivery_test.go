package nacostest_test

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/clients/config_client"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/property"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/testcontainers/link"
	"github.com/rulewire/rulewire/testcontainers/nacostest"
)

// What BenchmarkDelivery counts as lost: a last value that is not there this long after it was written.
const deliveryPatience = 5 * time.Second

func numbered(n int) []byte { return fmt.Appendf(nil, `[{"resource":"n","count":%d}]`, n) }

// board has the last number that each document's listener was given.
type board struct {
	mu   sync.Mutex
	last []int
	at   []time.Time
	tell chan struct{}
}

func newBoard(n int) *board {
	return &board{last: make([]int, n), at: make([]time.Time, n), tell: make(chan struct{}, 1)}
}

func (b *board) got(i, n int) {
	b.mu.Lock()
	b.last[i], b.at[i] = n, time.Now()
	b.mu.Unlock()
	select {
	case b.tell <- struct{}{}:
	default:
	}
}

// wait waits until every document is at n, and counts those that are not in time.
func (b *board) wait(n int, patience time.Duration) (lost int) {
	end := time.After(patience)
	for {
		lost = 0
		b.mu.Lock()
		for _, last := range b.last {
			if last != n {
				lost++
			}
		}
		b.mu.Unlock()
		if lost == 0 {
			return 0
		}
		select {
		case <-b.tell:
		case <-end:
			return lost
		}
	}
}

func parse(text string) int {
	_, text, _ = strings.Cut(text, `"count":`)
	n, _ := strconv.Atoi(strings.TrimRight(text, "}]"))
	return n
}

// sdk makes a client as a user would, with its files in a folder of the test, for the user who may do everything.
func sdk(tb testing.TB, s *nacostest.Server, servers []constant.ServerConfig, change func(*constant.ClientConfig)) config_client.IConfigClient {
	tb.Helper()
	dir, err := os.MkdirTemp("", "nacos-sdk-") // not the test's own: the SDK writes on after its end
	must(tb, err)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := constant.ClientConfig{
		TimeoutMs: 5000, NotLoadCacheAtStart: true, DisableUseSnapShot: true, LogDir: dir, CacheDir: dir, LogLevel: "error",
		Username: s.User(), Password: s.Password(),
	}
	if change != nil {
		change(&config)
	}
	c, err := clients.NewConfigClient(vo.NacosClientParam{ClientConfig: &config, ServerConfigs: servers})
	must(tb, err)
	tb.Cleanup(c.CloseClient)
	return c
}

// watchers are the ways to follow many documents that the decision in docs/decisions compares.
var watchers = []struct {
	name  string
	watch func(tb testing.TB, s *nacostest.Server, servers []constant.ServerConfig, at []nacostest.Config, b *board)
}{
	{"rulewire", func(tb testing.TB, s *nacostest.Server, servers []constant.ServerConfig, at []nacostest.Config, b *board) {
		c := sdk(tb, s, servers, nil)
		for i := range at {
			src, err := nacos.NewSource(c, at[i].DataID, at[i].Group)
			must(tb, err)
			r, err := datasource.New(src, converter.JSON[rule.Flow](), property.ListenerFunc[[]rule.Flow](func(_ context.Context, rules []rule.Flow) error {
				if len(rules) > 0 {
					b.got(i, int(rules[0].Count))
				}
				return nil
			}), datasource.Logger(nil))
			must(tb, err)
			must(tb, r.Start(context.Background()))
			tb.Cleanup(func() { must(tb, r.Close()) })
		}
	}},
	// As sentinel-golang's own data source does it: GetConfig, then ListenConfig.
	{"sdk-one-client", func(tb testing.TB, s *nacostest.Server, servers []constant.ServerConfig, at []nacostest.Config, b *board) {
		c := sdk(tb, s, servers, nil)
		for i := range at {
			follow(tb, c, at[i], i, b)
		}
	}},
	{"sdk-client-per-document", func(tb testing.TB, s *nacostest.Server, servers []constant.ServerConfig, at []nacostest.Config, b *board) {
		for i := range at {
			follow(tb, sdk(tb, s, servers, nil), at[i], i, b)
		}
	}},
	{"http-long-poll", longPoll},
}

func follow(tb testing.TB, c config_client.IConfigClient, at nacostest.Config, i int, b *board) {
	tb.Helper()
	param := vo.ConfigParam{DataId: at.DataID, Group: at.Group}
	text, err := c.GetConfig(param)
	must(tb, err)
	b.got(i, parse(text))
	param.OnChange = func(_, _, _, text string) { b.got(i, parse(text)) }
	must(tb, c.ListenConfig(param))
}

// longPoll is Nacos 1's protocol, which servers have until 2.x: one request names every document and its checksum, and
// is held until one differs.
func longPoll(tb testing.TB, _ *nacostest.Server, servers []constant.ServerConfig, at []nacostest.Config, b *board) {
	base := fmt.Sprintf("http://%s:%d/nacos/v1/cs/configs", servers[0].IpAddr, servers[0].Port)
	ctx, cancel := context.WithCancel(context.Background())
	c := &http.Client{Transport: &http.Transport{}}
	sums := make([]string, len(at))
	index := map[string]int{}
	read := func(i int) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, base+"?"+url.Values{"dataId": {at[i].DataID}, "group": {at[i].Group}}.Encode(), nil)
		reply, err := c.Do(r)
		if err != nil {
			return
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		sum := md5.Sum(text)
		sums[i] = hex.EncodeToString(sum[:])
		b.got(i, parse(string(text)))
	}
	for i := range at {
		index[at[i].DataID] = i
		read(i)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			var list strings.Builder
			for i := range at {
				fmt.Fprintf(&list, "%s\x02%s\x02%s\x01", at[i].DataID, at[i].Group, sums[i])
			}
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, base+"/listener", strings.NewReader(url.Values{"Listening-Configs": {list.String()}}.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Long-Pulling-Timeout", "30000")
			reply, err := c.Do(r)
			if err != nil {
				continue
			}
			text, _ := io.ReadAll(reply.Body)
			_ = reply.Body.Close()
			changed, _ := url.QueryUnescape(string(text))
			for one := range strings.SplitSeq(changed, "\x01") {
				if name, _, ok := strings.Cut(one, "\x02"); ok {
					read(index[name])
				}
			}
		}
	}()
	tb.Cleanup(func() {
		cancel()
		<-done
		c.CloseIdleConnections()
	})
}

// goroutines counts those that are not of the links.
func goroutines() (n int) {
	buf := make([]byte, 1<<20)
	for len(buf) == runtime.Stack(buf, true) {
		buf = make([]byte, 2*len(buf))
	}
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(one, "/testcontainers/link.") {
			n++
		}
	}
	return n
}

// BenchmarkDelivery writes documents twice each, one right after the other, and counts the last values that their
// listeners were not given, and how long the others took. RULEWIRE_DELIVERY_DOCS and _ROUNDS change its size.
//
//	go test -run '^$' -bench Delivery -benchtime 1x ./nacostest
func BenchmarkDelivery(b *testing.B) {
	size := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
			return n
		}
		return otherwise
	}
	documents, rounds := size("RULEWIRE_DELIVERY_DOCS", 40), size("RULEWIRE_DELIVERY_ROUNDS", 20)
	s := nacostest.Run(b)
	for _, w := range watchers {
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				at := make([]nacostest.Config, documents)
				for i := range at {
					at[i] = nacostest.Config{Group: group, DataID: newName()}
					must(b, s.Put(b.Context(), at[i], numbered(1)))
				}
				web, err := link.Listen(s.AdminHTTP())
				must(b, err)
				defer web.Close()
				grpc, err := link.Listen(s.AdminGRPC())
				must(b, err)
				defer grpc.Close()
				idle := goroutines()
				board := newBoard(documents)
				w.watch(b, s, nacostest.ServerConfigs(web, grpc), at, board)
				if lost := board.wait(1, deliveryPatience); lost > 0 {
					b.Fatalf("%d documents did not begin", lost)
				}
				time.Sleep(6 * time.Second) // the SDK registers its listeners at a tick of 5 s
				connections := web.Stats().Open + grpc.Stats().Open
				running := goroutines() - idle
				var took []time.Duration
				lost, n := 0, 1
				written := make([]time.Time, documents)
				for range rounds {
					for range 2 {
						n++
						for i := range at {
							written[i] = time.Now()
							must(b, s.Store(b.Context(), at[i], numbered(n)))
						}
					}
					lost += board.wait(n, deliveryPatience)
					board.mu.Lock()
					for i := range at {
						if board.last[i] == n {
							took = append(took, board.at[i].Sub(written[i]))
						}
					}
					board.mu.Unlock()
				}
				slices.Sort(took)
				percentile := func(p int) float64 {
					if len(took) == 0 {
						return -1
					}
					return float64(took[min(len(took)-1, len(took)*p/100)].Microseconds()) / 1000
				}
				b.ReportMetric(float64(lost), "lost")
				b.ReportMetric(float64(rounds*documents), "written")
				b.ReportMetric(percentile(50), "p50-ms")
				b.ReportMetric(percentile(99), "p99-ms")
				b.ReportMetric(float64(connections), "connections")
				b.ReportMetric(float64(running)/float64(documents), "goroutines/document")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
