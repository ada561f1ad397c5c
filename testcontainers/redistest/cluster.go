package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rulewire/rulewire/testcontainers"
	"github.com/rulewire/rulewire/testcontainers/internal/wait"
)

const (
	masters = 3
	slots   = 16384
)

var errClusterDown = errors.New("cluster is not ok yet")

// Cluster is a cluster of three masters, each with a replica.
type Cluster struct {
	group
	// Masters are the masters as they started, Replicas[i] that of Masters[i].
	Masters, Replicas []*Server
	password          string
}

// RunCluster starts a cluster. It calls a node gone after two seconds.
func RunCluster(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	var set settings
	set.apply(options)
	image, network := testcontainers.RedisImage(t), testcontainers.NewNetwork(t)
	g := &Cluster{password: set.password}
	all := make([]*Server, 2*masters)
	specs := make([]testcontainers.Spec, len(all))
	for i := range all {
		all[i] = &Server{port: port, password: set.password}
		command := append(set.arguments(), "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		specs[i] = all[i].spec(fmt.Sprintf("node%d", i+1), image, command)
		specs[i].Network, specs[i].Alias = network, specs[i].Name
		t.Cleanup(all[i].close)
	}
	testcontainers.RunAll(t, specs...)
	g.learn(t, all...)
	g.Masters, g.Replicas = all[:masters], all[masters:]
	if err := g.join(t, all); err != nil {
		t.Fatal(err)
	}
	return g
}

// join makes a cluster of servers that do not know each other: what redis-cli --cluster create does.
func (g *Cluster) join(t testing.TB, all []*Server) error {
	t.Helper()
	ctx := t.Context()
	for i, s := range all {
		if err := s.Client().Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
		if i < masters {
			first, last := i*slots/masters, (i+1)*slots/masters-1
			if err := s.Client().ClusterAddSlotsRange(ctx, first, last).Err(); err != nil {
				return err
			}
		}
		if i > 0 {
			host, port, err := net.SplitHostPort(all[0].inside(t))
			if err != nil {
				return err
			}
			if err := s.Client().ClusterMeet(ctx, host, port).Err(); err != nil {
				return err
			}
		}
	}
	// Each knows all before replicas can be named.
	if err := g.await(ctx, "cluster_known_nodes:"+strconv.Itoa(len(all))); err != nil {
		return err
	}
	for i, replica := range g.Replicas {
		id, err := g.Masters[i].Client().Do(ctx, "cluster", "myid").Text()
		if err != nil {
			return err
		}
		err = wait.Until(ctx, func(ctx context.Context) error { return replica.Client().ClusterReplicate(ctx, id).Err() })
		if err != nil {
			return err
		}
	}
	return g.AwaitOK(ctx)
}

// AwaitOK waits until every server that runs serves all slots, and every running replica has its master's data.
func (g *Cluster) AwaitOK(ctx context.Context) error {
	if err := g.await(ctx, "cluster_state:ok"); err != nil {
		return err
	}
	return wait.Until(ctx, func(ctx context.Context) error {
		for _, s := range append(append([]*Server(nil), g.Masters...), g.Replicas...) {
			client := s.Client()
			if client == nil {
				continue
			}
			info, err := client.Info(ctx, "replication").Result()
			if err != nil {
				return err
			}
			if strings.Contains(info, "role:slave") && !strings.Contains(info, "master_link_status:up") {
				return errClusterDown
			}
		}
		return nil
	})
}

// await waits until CLUSTER INFO of every server that runs has a line.
func (g *Cluster) await(ctx context.Context, line string) error {
	return wait.Until(ctx, func(ctx context.Context) error {
		for _, s := range append(append([]*Server(nil), g.Masters...), g.Replicas...) {
			client := s.Client()
			if client == nil {
				continue
			}
			info, err := client.ClusterInfo(ctx).Result()
			if err != nil {
				return err
			}
			if !strings.Contains(info, line+"\r\n") {
				return fmt.Errorf("%w: no %s", errClusterDown, line)
			}
		}
		return nil
	})
}

// Options are those of a client under test.
func (g *Cluster) Options() *redis.ClusterOptions {
	o := &redis.ClusterOptions{Password: g.password, Dialer: g.Dial}
	for _, s := range g.Masters {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	return o
}

// Owner is the master of a key's slot now, asked of any server that runs.
func (g *Cluster) Owner(ctx context.Context, key string) (*Server, error) {
	err := errClusterDown
	for _, s := range append(append([]*Server(nil), g.Masters...), g.Replicas...) {
		client := s.Client()
		if client == nil {
			continue
		}
		var slot int64
		if slot, err = client.ClusterKeySlot(ctx, key).Result(); err != nil {
			continue
		}
		var ranges []redis.ClusterSlot
		//lint:ignore SA1019 what replaced it is not in Redis 6
		if ranges, err = client.ClusterSlots(ctx).Result(); err != nil {
			continue
		}
		for _, r := range ranges {
			if int64(r.Start) <= slot && slot <= int64(r.End) && len(r.Nodes) > 0 {
				if owner := g.servers[r.Nodes[0].Addr]; owner != nil {
					return owner, nil
				}
			}
		}
		err = errClusterDown
	}
	return nil, err
}

// Migrate moves a key's slot, with its keys, to another master.
func (g *Cluster) Migrate(ctx context.Context, key string, to *Server) error {
	from, err := g.Owner(ctx, key)
	if err != nil || from == to {
		return err
	}
	slot, err := from.Client().ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return err
	}
	ids := map[*Server]string{}
	for _, s := range g.Masters {
		if ids[s], err = s.Client().Do(ctx, "cluster", "myid").Text(); err != nil {
			return err
		}
	}
	if err := to.Client().Do(ctx, "cluster", "setslot", slot, "importing", ids[from]).Err(); err != nil {
		return err
	}
	if err := from.Client().Do(ctx, "cluster", "setslot", slot, "migrating", ids[to]).Err(); err != nil {
		return err
	}
	host, port, err := g.address(to)
	if err != nil {
		return err
	}
	for {
		keys, err := from.Client().ClusterGetKeysInSlot(ctx, int(slot), 100).Result()
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			command := []any{"migrate", host, port, k, 0, 5000}
			if g.password != "" {
				command = append(command, "auth", g.password)
			}
			if err := from.Client().Do(ctx, command...).Err(); err != nil {
				return err
			}
		}
	}
	for _, s := range []*Server{to, from} {
		if err := s.Client().Do(ctx, "cluster", "setslot", slot, "node", ids[to]).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (g *Cluster) address(s *Server) (host, port string, err error) {
	for addr, other := range g.servers {
		if other == s {
			return net.SplitHostPort(addr)
		}
	}
	return "", "", errClusterDown
}
