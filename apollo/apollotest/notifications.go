package apollotest

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// poll is one that is held.
type poll struct {
	names  map[string]string // as the client spells them, of their watch keys
	result chan []note       // has room for one
	gone   chan struct{}
	once   sync.Once
}

func (p *poll) watches(content string) (name string, watched bool) {
	// Held polls are found in any letter case; those that come later are not.
	for key, n := range p.names {
		if strings.EqualFold(key, content) {
			return n, true
		}
	}
	return "", false
}

func (p *poll) answer(notes []note) {
	select {
	case p.result <- notes:
	default: // it has its answer already
	}
}

func (p *poll) hangUp() { p.once.Do(func() { close(p.gone) }) }

func (s *Server) notifications(w http.ResponseWriter, r *http.Request) {
	app, cluster, text := r.FormValue("appId"), r.FormValue("cluster"), r.FormValue("notifications")
	type entry struct {
		Namespace string `json:"namespaceName"`
		ID        int64  `json:"notificationId"`
	}
	var asked []entry
	err := json.Unmarshal([]byte(text), &asked)
	asked = slices.DeleteFunc(asked, func(a entry) bool { return a.Namespace == "" })
	if err != nil || len(asked) == 0 {
		w.Header().Set("Connection", "close")
		badRequest(w, "invalid notifications format:"+text)
		return
	}
	p := &poll{names: map[string]string{}, result: make(chan []note, 1), gone: make(chan struct{})}
	var news []note
	s.mu.Lock()
	for _, a := range asked {
		name := s.normal(app, bare(a.Namespace))
		owners := []string{app}
		if known := s.apps[app]; known == nil || !has(known.names, name) {
			for id, other := range s.apps {
				if other.names[name] && id != app {
					owners = append(owners, id)
				}
			}
		}
		n := note{Namespace: a.Namespace, ID: -1, Messages: details{map[string]int64{}}}
		for _, owner := range owners {
			for _, c := range []string{cluster, "default"} {
				key := watchKey(owner, c, name)
				p.names[key] = a.Namespace
				if id := s.scanned[key]; id > 0 {
					n.Messages.Details[key] = id
					n.ID = max(n.ID, id)
				}
			}
		}
		if n.ID > a.ID {
			news = append(news, n)
		}
	}
	if len(news) == 0 && !s.closed {
		s.polls[p] = struct{}{}
	}
	s.mu.Unlock()
	if len(news) > 0 {
		write(w, http.StatusOK, news)
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.polls, p)
		s.mu.Unlock()
	}()
	t := time.NewTimer(s.hold)
	defer t.Stop()
	select {
	case notes := <-p.result:
		write(w, http.StatusOK, notes)
	case <-t.C:
		w.WriteHeader(http.StatusNotModified)
	case <-r.Context().Done():
	case <-p.gone:
		panic(http.ErrAbortHandler) // the connection ends, as that of a server that stops
	}
}

func has(m map[string]bool, name string) bool {
	_, there := m[name]
	return there
}
