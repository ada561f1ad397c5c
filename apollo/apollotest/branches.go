package apollotest

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
)

// branches is the admin service's part for gray releases: a branch is a cluster of its own with items and releases, and
// rules say whom it is for.
func (s *Server) branches(handle func(method, path string, h func(http.ResponseWriter, *http.Request, *Namespace))) {
	handle("POST", "/branches", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		switch {
		case r.FormValue("operator") == "":
			badRequest(w, "Required request parameter 'operator' is not present")
		case slices.ContainsFunc(n.gray, func(g *gray) bool { return g.branch != nil }):
			badRequest(w, "namespace already has branch")
		default:
			b := n.newBranch()
			write(w, http.StatusOK, namespaceBody{ID: b.id, AppID: b.app, Cluster: b.cluster, Name: b.name})
		}
	})
	handle("PUT", "/branches/{branch}/rules", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		var rules struct {
			Items []struct {
				IPs    []string `json:"clientIpList"`
				Labels []string `json:"clientLabelList"`
			} `json:"ruleItems"`
		}
		g := n.grayAt(r.PathValue("branch"))
		if g == nil || !body(r, &rules) {
			badRequest(w, "no such branch, or no rules")
			return
		}
		g.ips, g.labels = nil, nil
		for _, i := range rules.Items {
			g.ips, g.labels = append(g.ips, i.IPs...), append(g.labels, i.Labels...)
		}
		s.announce(n)
	})
	handle("DELETE", "/branches/{branch}", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		g := n.grayAt(r.PathValue("branch"))
		if g == nil {
			badRequest(w, "no such branch")
			return
		}
		g.branch.deleted = true
		n.gray = slices.DeleteFunc(n.gray, func(other *gray) bool { return other == g })
		s.announce(n)
	})
}

func (n *Namespace) newBranch() *Namespace {
	n.s.ids++
	b := &Namespace{s: n.s, id: n.s.ids, app: n.app, cluster: fmt.Sprintf("branch-%d", n.s.ids), name: n.name, parent: n}
	n.s.namespaces = append(n.s.namespaces, b)
	n.gray = append(n.gray, &gray{branch: b})
	return b
}

func (n *Namespace) grayAt(branch string) *gray {
	for _, g := range n.gray {
		if g.branch != nil && g.branch.cluster == branch {
			return g
		}
	}
	return nil
}

// publishBranch releases a branch's items over what the namespace has released.
func (n *Namespace) publishBranch(b *Namespace, values map[string]string) *release {
	g := cmp.Or(n.grayAt(b.cluster), &gray{}) // given up meanwhile: nobody is served it
	g.values = values
	n.branch(g)
	b.releases = append(b.releases, g.release)
	n.s.announce(n)
	return g.release
}
