package apollotest

import (
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
		Items   []itemBody `json:"items,omitzero"`
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
