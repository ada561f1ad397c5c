package apollotest

import (
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
)

type (
	itemBody struct {
		ID          int64  `json:"id,omitzero"`
		NamespaceID int64  `json:"namespaceId,omitzero"`
		Key         string `json:"key"`
		Type        int    `json:"type"`
		Value       string `json:"value"`
		Comment     string `json:"comment,omitzero"`
		Line        int    `json:"lineNum,omitzero"`
		Created     string `json:"dataChangeCreatedBy,omitzero"`
		Changed     string `json:"dataChangeLastModifiedBy,omitzero"`
		CreatedTime string `json:"dataChangeCreatedTime,omitzero"`
		ChangedTime string `json:"dataChangeLastModifiedTime,omitzero"`
	}
	namespaceBody struct {
		ID      int64      `json:"id,omitzero"`
		AppID   string     `json:"appId"`
		Cluster string     `json:"clusterName"`
		Name    string     `json:"namespaceName"`
		Items   []itemBody `json:"items,omitempty"`
	}
	openRelease struct {
		ID             int64             `json:"id"`
		AppID          string            `json:"appId"`
		Cluster        string            `json:"clusterName"`
		Namespace      string            `json:"namespaceName"`
		Name           string            `json:"name"`
		Configurations map[string]string `json:"configurations"`
		Comment        string            `json:"comment"`
		Created        string            `json:"dataChangeCreatedBy"`
		CreatedTime    string            `json:"dataChangeCreatedTime"`
	}
	adminRelease struct {
		ID             int64  `json:"id"`
		ReleaseKey     string `json:"releaseKey"`
		Name           string `json:"name"`
		AppID          string `json:"appId"`
		Cluster        string `json:"clusterName"`
		Namespace      string `json:"namespaceName"`
		Configurations string `json:"configurations"`
		Comment        string `json:"comment"`
		Abandoned      bool   `json:"isAbandoned"`
		Created        string `json:"dataChangeCreatedBy"`
		CreatedTime    string `json:"dataChangeCreatedTime"`
	}
)

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000+0000") }

func (n *Namespace) body(i *item, ids bool) itemBody {
	b := itemBody{
		Key: i.key, Type: i.kind, Value: i.value, Comment: i.comment, Created: i.createdBy, Changed: i.changedBy,
		CreatedTime: stamp(i.createdTime), ChangedTime: stamp(i.changeTime),
	}
	if ids {
		b.ID, b.NamespaceID, b.Line = i.id, n.id, slices.Index(n.items, i)+1
	}
	return b
}

func (n *Namespace) bodies(ids bool) []itemBody {
	list := []itemBody{}
	for _, i := range n.items {
		list = append(list, n.body(i, ids))
	}
	return list
}

func (n *Namespace) open(r *release) openRelease {
	return openRelease{r.id, n.app, n.cluster, n.name, r.name, r.values, r.comment, r.by, stamp(r.time)}
}

func (n *Namespace) full(r *release) adminRelease {
	values, err := json.Marshal(r.values, json.Deterministic(true))
	if err != nil {
		panic(err) // a map of texts
	}
	return adminRelease{r.id, r.key, r.name, n.app, n.cluster, n.name, string(values), r.comment, r.abandoned, r.by, stamp(r.time)}
}

// in gives the namespace of a request, with the mutex held, or answers that there is none.
func (s *Server) in(w http.ResponseWriter, r *http.Request) *Namespace {
	n := s.find(r.PathValue("app"), r.PathValue("cluster"), r.PathValue("namespace"))
	if n == nil {
		missing(w, "namespace not found for appId:"+r.PathValue("app")+" clusterName:"+r.PathValue("cluster")+" namespaceName:"+r.PathValue("namespace"))
	}
	return n
}

func body(r *http.Request, v any) bool {
	b, err := io.ReadAll(r.Body)
	return err == nil && json.Unmarshal(b, v) == nil
}

// fits checks a value's length as the server does, and answers where it is over.
func (s *Server) fits(w http.ResponseWriter, value string) bool {
	if len(utf16.Encode([]rune(value))) > s.limit {
		badRequest(w, "value too long. length limit:"+strconv.Itoa(s.limit))
		return false
	}
	return true
}

const longestComment = 256

// locked takes the mutex until done, which then sends what was written: a client that does not read its answer must not
// hold up the others.
func (s *Server) locked(w http.ResponseWriter) (_ http.ResponseWriter, done func()) {
	s.mu.Lock()
	k := &kept{ResponseWriter: w, status: http.StatusOK}
	return k, func() {
		s.mu.Unlock()
		w.WriteHeader(k.status)
		_, _ = w.Write(k.body)
	}
}

type kept struct {
	http.ResponseWriter
	status int
	body   []byte
}

func (k *kept) WriteHeader(status int) { k.status = status }

func (k *kept) Write(b []byte) (int, error) {
	k.body = append(k.body, b...)
	return len(b), nil
}

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
		write(w, http.StatusOK, struct {
			AppID   string     `json:"appId"`
			Cluster string     `json:"clusterName"`
			Name    string     `json:"namespaceName"`
			Items   []itemBody `json:"items"`
		}{n.app, n.cluster, n.name, n.bodies(false)})
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
			write(w, http.StatusOK, n.open(n.publish(model.Title, model.Comment, model.By)))
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
			write(w, http.StatusOK, n.full(n.publish(name, comment, by)))
		}
	})
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
