package apollotest

import (
	"net/http"
	"strconv"
	"unicode/utf16"
)

// admin is the admin service, which asks nobody who they are.
func (s *Server) admin(m *http.ServeMux) {
	handle := func(method, path string, h func(http.ResponseWriter, *http.Request, *Namespace)) {
		m.HandleFunc(method+" /apps/{app}/clusters/{cluster}/namespaces/{namespace}"+path, func(w http.ResponseWriter, r *http.Request) {
			w, done := s.locked(w)
			defer done()
			n := s.find(r.PathValue("app"), r.PathValue("cluster"), r.PathValue("namespace"))
			if method == "GET" && path != "" {
				h(w, r, n) // lists of what does not exist are empty
			} else if n := s.in(w, r); n != nil {
				h(w, r, n)
			}
		})
	}
	handle("GET", "", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		write(w, http.StatusOK, namespaceBody{ID: n.id, AppID: n.app, Cluster: n.cluster, Name: n.name})
	})
	handle("GET", "/items", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		list := []itemBody{}
		if n != nil {
			list = n.bodies(true)
		}
		write(w, http.StatusOK, list)
	})
	handle("GET", "/releases/latest", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		if n != nil && n.latest() != nil {
			write(w, http.StatusOK, n.full(n.latest()))
		}
	})
	handle("POST", "/items", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		var b itemBody
		switch {
		case !body(r, &b) || b.NamespaceID != n.id:
			exception(w, http.StatusInternalServerError, "ServiceException", "could not execute statement")
		case n.item(b.Key) != nil:
			badRequest(w, "item already exists for itemKey:"+b.Key)
		case s.fits(w, b.Value):
			i := n.edit(b.Key, b.Value, b.Changed)
			i.comment, i.kind, i.createdBy = b.Comment, b.Type, b.Created
			write(w, http.StatusOK, n.body(i, true))
		}
	})
	handle("PUT", "/items/{id}", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		var b itemBody
		i := n.numbered(r.PathValue("id"))
		switch {
		case !body(r, &b):
			badRequest(w, "no item")
		case i == nil:
			missing(w, "item not found for itemId:"+r.PathValue("id"))
		case s.fits(w, b.Value):
			n.edit(i.key, b.Value, b.Changed)
			i.comment, i.kind = b.Comment, b.Type
			write(w, http.StatusOK, n.body(i, true))
		}
	})
	handle("POST", "/releases", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		name, comment, by := r.FormValue("name"), r.FormValue("comment"), r.FormValue("operator")
		switch {
		case name == "" || by == "":
			badRequest(w, "Required request parameter is not present")
		case len(name) > 64 || len(utf16.Encode([]rune(comment))) > longestComment:
			exception(w, http.StatusInternalServerError, "ServiceException", "value too long for column")
		default:
			write(w, http.StatusOK, n.full(n.transaction(name, comment, by)))
		}
	})
	s.branches(handle)
	m.HandleFunc("DELETE /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		w, done := s.locked(w)
		defer done()
		for _, n := range s.namespaces {
			if i := n.numbered(r.PathValue("id")); i != nil && !n.deleted {
				n.remove(i.key)
				return
			}
		}
		missing(w, "item not found for itemId:"+r.PathValue("id"))
	})
}

func (n *Namespace) numbered(id string) *item {
	for _, i := range n.items {
		if strconv.FormatInt(i.id, 10) == id {
			return i
		}
	}
	return nil
}
