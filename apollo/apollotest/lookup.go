package apollotest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// served finds what the config service gives to a client.
func (s *Server) served(app, cluster, name, ip, label string) (list []*release, from string) {
	from = cluster
	a := s.found(app)
	if a == nil {
		return nil, from
	}
	name = s.normal(a.name, name)
	load := func(owner string) *release {
		for _, c := range []string{cluster, "default"} {
			n := s.find(owner, c, name)
			if n == nil {
				continue
			}
			for _, g := range n.gray {
				if g.release == nil {
					continue
				}
				if slices.Contains(g.ips, ip) || slices.Contains(g.ips, "*") || label != "" && slices.Contains(g.labels, label) {
					from = cmp.Or(c, from)
					return g.release
				}
			}
			if r := n.latest(); r != nil {
				from = c
				return r
			}
		}
		return nil
	}
	if r := load(app); r != nil {
		list = append(list, r)
	}
	if _, own := a.names[name]; !own {
		for id, other := range s.apps {
			if public := other.names[name]; public && id != a.name {
				was := from
				if r := load(id); r != nil {
					list = append(list, r)
				}
				if len(list) > 1 {
					from = was
				}
			}
		}
	}
	return list, from
}

// normal gives the name as the namespace was made.
func (s *Server) normal(app, name string) string {
	if a := s.apps[app]; a != nil {
		for n := range a.names {
			if strings.EqualFold(n, name) {
				return n
			}
		}
	}
	for _, a := range s.apps {
		for n, public := range a.names {
			if public && strings.EqualFold(n, name) {
				return n
			}
		}
	}
	return name
}

func merged(list []*release) (key string, values map[string]string) {
	values = map[string]string{}
	for _, r := range slices.Backward(list) {
		maps.Copy(values, r.values)
		if key == "" {
			key = r.key
		} else {
			key = r.key + "+" + key
		}
	}
	return key, values
}
