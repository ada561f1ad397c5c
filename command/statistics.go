package command

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Statistics is what an engine counts. Its methods must be quick and safe for concurrent use.
type Statistics interface {
	// Nodes gives what each resource does at this moment.
	Nodes() []Node
	// Inbound gives the same for all inbound traffic together.
	Inbound() Node
	// Seconds gives the finished seconds that start at from or later and before to, both whole seconds, as far as the engine
	// still has them: for each resource and for the total of the inbound traffic. Seconds without traffic may be left out;
	// the order does not matter.
	Seconds(from, to time.Time) []Second
}

// Node is what one resource does at this moment.
type Node struct {
	Resource string
	// Threads is the number of calls in flight.
	Threads int64
	// Calls per second: let in, refused, ended, ended with an error.
	PassQPS, BlockQPS, SuccessQPS, ExceptionQPS float64
	// AverageRT is the average response time, milliseconds.
	AverageRT float64
}

// Second is what one resource did in one second.
type Second struct {
	// Time is the second's start.
	Time     time.Time
	Resource string
	// Classification is the type of resource: 0 common, 1 web, 2 RPC, 3 gateway, 4 database, 5 cache, 6 queue.
	Classification int32
	// Calls: let in, refused, ended, ended with an error, let in on credit.
	Pass, Block, Success, Exception, Occupied uint64
	// RT is the average response time, milliseconds.
	RT uint64
	// Concurrency is the most calls in flight.
	Concurrency uint64
}

// The bounds of the ring. The Dashboard asks for each second once, 2 to 15 s later; the sums of the last minute need 60; people
// look back three minutes.
const (
	ringSeconds  = 185
	ringLines    = 250_000
	samplePeriod = 3 * time.Second // engines keep about 10 s
)

// ring keeps the last seconds of an engine. There is one entry for each resource with traffic and second, and nothing for a
// resource without.
type ring struct {
	stats Statistics

	mu    sync.Mutex
	next  int64   // the first second that was not sampled yet, Unix
	lines []entry // in order of time, then resource
}

type entry struct {
	second                                                    int64
	resource                                                  string // the engine's own text
	classification                                            int32
	pass, block, success, exception, occupied, rt, concurrent uint32
}

func newRing(s Statistics) *ring { return &ring{stats: s} }

// run samples until ctx ends. It is the only goroutine of the statistics.
func (r *ring) run(ctx context.Context) {
	t := time.NewTicker(samplePeriod)
	defer t.Stop()
	for {
		r.sample(time.Now())
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// sample takes what was finished since the last time.
func (r *ring) sample(now time.Time) {
	if r.stats == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	end := now.Unix() // this second is not finished
	start := r.next
	if start == 0 || end-start > ringSeconds || start > end+1 { // the first time, after a long pause, or the clock went back
		start = end - ringSeconds
	}
	if start > end {
		return
	}
	r.lines = r.lines[:r.at(start)]
	if start == end {
		return
	}
	from := len(r.lines)
	for _, s := range r.stats.Seconds(time.Unix(start, 0), time.Unix(end, 0)) {
		second := s.Time.Unix()
		if second < start || second >= end || s.Pass|s.Block|s.Success|s.Exception|s.Occupied|s.Concurrency == 0 {
			continue
		}
		r.lines = append(r.lines, entry{second: second, resource: s.Resource, classification: s.Classification,
			pass: narrow(s.Pass), block: narrow(s.Block), success: narrow(s.Success), exception: narrow(s.Exception),
			occupied: narrow(s.Occupied), rt: narrow(s.RT), concurrent: narrow(s.Concurrency)})
	}
	slices.SortFunc(r.lines[from:], func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.second, b.second), strings.Compare(a.resource, b.resource))
	})
	r.next = end
	r.trim(end)
}

// at is the place of the first line of a second or of a later one.
func (r *ring) at(second int64) int {
	i, _ := slices.BinarySearchFunc(r.lines, second, func(e entry, s int64) int { return cmp.Compare(e.second, s) })
	return i
}

// trim drops what is too old or too much; the lines are moved so that nothing keeps the old ones alive.
func (r *ring) trim(end int64) {
	r.lines = slices.Delete(r.lines, 0, max(r.at(end-ringSeconds), len(r.lines)-ringLines))
	if cap(r.lines) > 4096 && cap(r.lines) > 4*len(r.lines) {
		r.lines = slices.Clone(r.lines) // after a burst
	}
}

func narrow(n uint64) uint32 { return uint32(min(n, 1<<32-1)) }

// text gives the lines of the seconds from start to end, both inclusive, of one resource or of all ("").
// maxLines > 0 ends at the first whole second that reaches it.
func (r *ring) text(start, end int64, resource string, maxLines int) string {
	r.sample(time.Now())
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	n, last := 0, int64(0)
	for i := r.at(start); i < len(r.lines) && r.lines[i].second <= end; i++ {
		e := &r.lines[i]
		if resource != "" && e.resource != resource {
			continue
		}
		if maxLines > 0 && n >= maxLines && e.second != last {
			break
		}
		n, last = n+1, e.second
		b.WriteString(strconv.FormatInt(e.second*1000, 10))
		b.WriteByte('|')
		b.WriteString(lineName.Replace(e.resource))
		for _, v := range [...]uint32{e.pass, e.block, e.success, e.exception, e.rt, e.occupied, e.concurrent} {
			b.WriteByte('|')
			b.WriteString(strconv.FormatUint(uint64(v), 10))
		}
		b.WriteByte('|')
		b.WriteString(strconv.FormatInt(int64(e.classification), 10))
		b.WriteByte('\n')
	}
	return b.String()
}

// lineName keeps a resource's name from ending a field or a line.
var lineName = strings.NewReplacer("|", "_", "\n", "_", "\r", "_")

// minute are the sums of a resource's last 60 seconds.
type minute struct{ pass, block, exception uint64 }

// minutes gives the sums of all resources that had traffic in the last 60 finished seconds.
func (r *ring) minutes() map[string]minute {
	now := time.Now()
	r.sample(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	sums := make(map[string]minute)
	for i := r.at(now.Unix() - 60); i < len(r.lines); i++ {
		e := &r.lines[i]
		m := sums[e.resource]
		m.pass += uint64(e.pass)
		m.block += uint64(e.block)
		m.exception += uint64(e.exception)
		sums[e.resource] = m
	}
	return sums
}
