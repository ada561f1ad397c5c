package sentinel

import (
	"time"

	"github.com/alibaba/sentinel-golang/core/base"
	"github.com/alibaba/sentinel-golang/core/stat"

	"github.com/rulewire/rulewire/command"
)

// Statistics are the core's own counters, for the command centre's charts and tree. They are global to the process.
func Statistics() command.Statistics { return statistics{} }

type statistics struct{}

// Nodes gives every resource that the core knows.
func (statistics) Nodes() []command.Node {
	list := stat.ResourceNodeList()
	nodes := make([]command.Node, len(list))
	for i, n := range list {
		nodes[i] = node(n)
	}
	return nodes
}

// Inbound gives the core's node of all inbound traffic.
func (statistics) Inbound() command.Node { return node(stat.InboundNode()) }

func node(n *stat.ResourceNode) command.Node {
	return command.Node{
		Resource: n.ResourceName(), Threads: int64(n.CurrentConcurrency()), AverageRT: n.AvgRT(),
		PassQPS: n.GetQPS(base.MetricEventPass), BlockQPS: n.GetQPS(base.MetricEventBlock),
		SuccessQPS: n.GetQPS(base.MetricEventComplete), ExceptionQPS: n.GetQPS(base.MetricEventError),
	}
}

// Seconds reads the core's sliding windows, which hold the last 10 s by default.
func (statistics) Seconds(from, to time.Time) []command.Second {
	start, end := uint64(from.UnixMilli()), uint64(to.UnixMilli())
	within := func(bucket uint64) bool { return bucket >= start && bucket < end }
	var all []command.Second
	add := func(n *stat.ResourceNode) {
		for _, m := range n.MetricsOnCondition(within) {
			if m.PassQps|m.BlockQps|m.CompleteQps|m.ErrorQps|uint64(m.Concurrency) == 0 {
				continue
			}
			if m.CompleteQps == 0 {
				m.AvgRt = 0 // nothing ended
			}
			all = append(all, command.Second{
				Time: time.UnixMilli(int64(m.Timestamp)), Resource: n.ResourceName(), Classification: int32(n.ResourceType()),
				Pass: m.PassQps, Block: m.BlockQps, Success: m.CompleteQps, Exception: m.ErrorQps, Occupied: m.OccupiedPassQps,
				RT: m.AvgRt, Concurrency: uint64(m.Concurrency),
			})
		}
	}
	for _, n := range stat.ResourceNodeList() {
		add(n)
	}
	add(stat.InboundNode())
	return all
}
