package apollotest

import (
	"encoding/base64"
	"net/http"
	"slices"
	"unicode/utf16"
)

// portal is the open API.
func (s *Server) portal(m *http.ServeMux) {
	handle := func(method, path string, h func(http.ResponseWriter, *http.Request, *Namespace)) {
		m.HandleFunc(method+" /openapi/v1/envs/{env}/apps/{app}/clusters/{cluster}/namespaces/{namespace}"+path, func(w http.ResponseWriter, r *http.Request) {
			w, done := s.locked(w)
			defer done()
			if r.Header.Get("Authorization") != s.token {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if r.PathValue("env") != Env {
				badRequest(w, "invalid env:"+r.PathValue("env"))
				return
			}
			if path == "/releases/latest" {
				h(w, r, s.find(r.PathValue("app"), r.PathValue("cluster"), r.PathValue("namespace")))
				return
			}
			if n := s.in(w, r); n != nil {
				h(w, r, n)
			}
		})
	}
	handle("GET", "", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		write(w, http.StatusOK, namespaceBody{AppID: n.app, Cluster: n.cluster, Name: n.name, Items: n.bodies(false)})
	})
	handle("GET", "/releases/latest", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		if n == nil || n.latest() == nil {
			return // 200 without a body
		}
		write(w, http.StatusOK, n.open(n.latest()))
	})
	handle("POST", "/releases", func(w http.ResponseWriter, r *http.Request, n *Namespace) {
		var model struct {
			Title   string `json:"releaseTitle"`
			Comment string `json:"releaseComment"`
			By      string `json:"releasedBy"`
		}
		switch {
		case !body(r, &model) || model.Title == "" || model.By == "":
			badRequest(w, "Params(releaseTitle and releasedBy) can not be empty")
		case !slices.Contains(s.users, model.By):
			badRequest(w, "user not exists for userName:"+model.By)
		case len(model.Title) > 64 || len(utf16.Encode([]rune(model.Comment))) > longestComment:
			exception(w, http.StatusInternalServerError, "ServiceException", "value too long for column")
		default:
			write(w, http.StatusOK, n.open(n.transaction(model.Title, model.Comment, model.By)))
		}
	})
	for _, path := range []string{"/items/{key}", "/encodedItems/{key}"} {
		name := func(r *http.Request) string {
			key := r.PathValue("key")
			if b, err := base64.StdEncoding.DecodeString(key); err == nil && path != "/items/{key}" {
				key = string(b)
			}
			return key
		}
		handle("GET", path, func(w http.ResponseWriter, r *http.Request, n *Namespace) {
			i := n.item(name(r))
			if i == nil {
				missing(w, "item not found for itemKey:"+name(r))
				return
			}
			write(w, http.StatusOK, n.body(i, false))
		})
		handle("PUT", path, func(w http.ResponseWriter, r *http.Request, n *Namespace) {
			var b itemBody
			key := name(r)
			create := r.FormValue("createIfNotExists") == "true"
			switch {
			case !body(r, &b) || b.Key == "" || b.Changed == "":
				badRequest(w, "key and dataChangeLastModifiedBy can not be empty")
			case b.Key != key:
				badRequest(w, "Key in path and payload is not consistent")
			case !slices.Contains(s.users, b.Changed):
				badRequest(w, "user not exists for userName:"+b.Changed)
			case create && b.Created == "":
				badRequest(w, "dataChangeCreatedBy is required when createIfNotExists is true")
			case n.item(key) == nil && !create:
				missing(w, "item not found for itemKey:"+key)
			case s.fits(w, b.Value):
				i := n.edit(key, b.Value, b.Changed)
				i.comment, i.kind = b.Comment, b.Type
			}
		})
		handle("DELETE", path, func(w http.ResponseWriter, r *http.Request, n *Namespace) {
			switch key := name(r); {
			case !slices.Contains(s.users, r.FormValue("operator")):
				badRequest(w, "user not exists for userName:"+r.FormValue("operator"))
			case n.item(key) == nil:
				missing(w, "item not found for itemKey:"+key)
			default:
				n.remove(key)
			}
		})
	}
}
