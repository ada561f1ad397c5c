package command

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The names of Java's tree. Source: Constants.ROOT_ID and CONTEXT_DEFAULT_NAME of sentinel-core 1.8.9.
const (
	rootName    = "machine-root"
	contextName = "sentinel_default_context"
)

// nodeView is Java's NodeVo: whole numbers only, no nulls.
type nodeView struct {
	ID                 string `json:"id,omitempty"`
	ParentID           string `json:"parentId,omitempty"`
	Resource           string `json:"resource"`
	ThreadNum          int64  `json:"threadNum"`
	PassQPS            int64  `json:"passQps"`
	BlockQPS           int64  `json:"blockQps"`
	TotalQPS           int64  `json:"totalQps"`
	AverageRT          int64  `json:"averageRt"`
	SuccessQPS         int64  `json:"successQps"`
	ExceptionQPS       int64  `json:"exceptionQps"`
	OneMinutePass      int64  `json:"oneMinutePass"`
	OneMinuteBlock     int64  `json:"oneMinuteBlock"`
	OneMinuteException int64  `json:"oneMinuteException"`
	OneMinuteTotal     int64  `json:"oneMinuteTotal"`
	Timestamp          int64  `json:"timestamp"`
}

func viewNode(n *Node, m minute, now time.Time) nodeView {
	return nodeView{
		Resource: n.Resource, ThreadNum: n.Threads, PassQPS: int64(n.PassQPS), BlockQPS: int64(n.BlockQPS),
		TotalQPS: int64(n.PassQPS + n.BlockQPS), AverageRT: int64(n.AverageRT), SuccessQPS: int64(n.SuccessQPS), ExceptionQPS: int64(n.ExceptionQPS),
		OneMinutePass: int64(m.pass), OneMinuteBlock: int64(m.block), OneMinuteException: int64(m.exception), OneMinuteTotal: int64(m.pass + m.block),
		Timestamp: now.UnixMilli(),
	}
}

// nodes gives every resource, and the inbound traffic apart.
func (c *Centre) nodes() (inbound nodeView, all []nodeView) {
	now := time.Now()
	all = []nodeView{}
	if c.opts.stats == nil {
		return nodeView{Timestamp: now.UnixMilli()}, all
	}
	minutes := c.ring.minutes()
	for _, n := range c.opts.stats.Nodes() {
		all = append(all, viewNode(&n, minutes[n.Resource], now))
	}
	slices.SortFunc(all, func(a, b nodeView) int { return strings.Compare(a.Resource, b.Resource) })
	total := c.opts.stats.Inbound()
	return viewNode(&total, minutes[total.Resource], now), all
}

// tree gives the nodes in pre-order: the root, one context, the resources. Engines here keep no tree of calls. It is never
// empty: that would break the Dashboard's page.
func (c *Centre) tree() []nodeView {
	root, all := c.nodes()
	call := make([]byte, 6)
	_, _ = rand.Read(call) // never fails
	id := func(i int) string { return fmt.Sprintf("%x-%d", call, i) }
	root.Resource, root.ID = rootName, id(0)
	context := root
	context.Resource, context.ID, context.ParentID = contextName, id(1), id(0)
	list := append(make([]nodeView, 0, len(all)+2), root, context)
	for i := range all {
		all[i].ID, all[i].ParentID = id(i+2), id(1)
		list = append(list, all[i])
	}
	return list
}

// treeText is command `tree`: a line for each node, one hyphen for each level.
func (c *Centre) treeText(id string) string {
	var b strings.Builder
	list := c.tree()
	if id != "" {
		list = slices.DeleteFunc(list, func(n nodeView) bool { return n.ParentID == "" || !strings.Contains(n.Resource, id) })
	}
	for i := range list {
		n := &list[i]
		entrance := n.Resource == rootName || n.Resource == contextName
		if id == "" {
			b.WriteString(strings.Repeat("-", min(i, 2)))
		}
		if entrance {
			b.WriteString("EntranceNode: ")
		}
		fmt.Fprintf(&b, "%s(t:%d pq:%d bq:%d tq:%d rt:%d prq:%d 1mp:%d 1mb:%d 1mt:%d)\n", n.Resource, n.ThreadNum, n.PassQPS, n.BlockQPS, n.TotalQPS,
			n.AverageRT, n.SuccessQPS, n.OneMinutePass, n.OneMinuteBlock, n.OneMinuteTotal)
	}
	b.WriteString("\r\n\r\n")
	b.WriteString("t:threadNum  pq:passQps  bq:blockQps  tq:totalQps  rt:averageRt  prq: passRequestQps 1mp:1m-pass 1mb:1m-block 1mt:1m-total\r\n")
	return b.String()
}

// The bounds of the tables: names longer than that go on in the next line, and no more than so many rows.
const (
	tableName = 79
	tableRows = 30
)

// table is command `cnode`: the resources whose name contains id.
func (c *Centre) table(id string) string {
	_, all := c.nodes()
	var rows []*nodeView
	width := 0
	for i := range all {
		if len(rows) < tableRows && strings.Contains(all[i].Resource, id) {
			rows = append(rows, &all[i])
			width = max(width, len([]rune(all[i].Resource)))
		}
	}
	width = max(min(width, tableName), 2) // room for the heading
	var b strings.Builder
	line := func(name string, cells ...string) {
		fmt.Fprintf(&b, "%-4s%-*s", cells[0], width+1, name)
		for i, w := range [...]int{10, 10, 10, 11, 9, 6, 10, 11, 9, 11} {
			cell := ""
			if i+1 < len(cells) {
				cell = cells[i+1]
			}
			fmt.Fprintf(&b, "%-*s", w, cell)
		}
		b.WriteByte('\n')
	}
	line("id", "idx", "thread", "pass", "blocked", "success", "total", "aRt", "1m-pass", "1m-block", "1m-all", "exception")
	for i, n := range rows {
		name := []rune(n.Resource)
		head := name[:min(len(name), width)]
		cells := []string{strconv.Itoa(i + 1)}
		for _, v := range [...]int64{n.ThreadNum, n.PassQPS, n.BlockQPS, n.SuccessQPS, n.TotalQPS, n.AverageRT, n.OneMinutePass, n.OneMinuteBlock, n.OneMinuteTotal, n.ExceptionQPS} {
			cells = append(cells, itoa(v))
		}
		line(string(head), cells...)
		for name = name[len(head):]; len(name) > 0; name = name[min(len(name), width):] {
			line(string(name[:min(len(name), width)]), "")
		}
	}
	return b.String()
}

// origins is command `origin`: a heading only, for engines here tell no origins apart.
func (c *Centre) origins(id string) string {
	_, all := c.nodes()
	for _, exact := range [...]bool{true, false} {
		for i := range all {
			name := all[i].Resource
			if name != id && (exact || id == "" || !strings.Contains(name, id)) {
				continue
			}
			return fmt.Sprintf("id: %s\n\n%-4s%-8s%-10s%-10s%-11s%-9s%-6s%-10s%-11s%-9s\n", name,
				"idx", "origin", "threadNum", "passQps", "blockQps", "totalQps", "aRt", "1m-pass", "1m-block", "1m-total")
		}
	}
	return textNotFoundNode + id
}
