package apollotest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

type message struct {
	id      int64
	content string
}

// announce lets the config service find the release at its next scan. The mutex is held.
func (s *Server) announce(n *Namespace) {
	s.messages++
	s.pending = append(s.pending, message{s.messages, n.content()})
	if s.scanning != nil || s.closed {
		return
	}
	wait := s.scan - time.Since(s.born)%s.scan
	s.scanning = time.AfterFunc(wait, s.look)
}

func watchKey(app, cluster, name string) string { return app + "+" + cluster + "+" + name }

// look is the config service's scan for release messages.
func (s *Server) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scanning = nil
	pending := s.pending
	s.pending = nil
	for _, m := range pending {
		s.scanned[m.content] = m.id
		for key := range s.cache {
			if strings.EqualFold(key, m.content) {
				delete(s.cache, key)
			}
		}
		for p := range s.polls {
			// Each message answers the polls of its namespace alone: what else is new they are told next time.
			if name, watched := p.watches(m.content); watched {
				p.answer([]note{{name, m.id, details{map[string]int64{m.content: m.id}}}})
			}
		}
	}
}

// Restore sets the database back: the namespace has values and no others, and messages count from a lower number.
func (s *Server) Restore(n *Namespace, values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages /= 2
	n.items, n.gray = nil, nil
	for _, key := range slices.Sorted(maps.Keys(values)) {
		n.edit(key, values[key], Editor)
	}
	n.publish("restored", "", Editor)
	s.restart()
}

// Restart ends all polls and lets the config service begin anew.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

func (s *Server) restart() {
	for p := range s.polls {
		p.hangUp()
	}
	s.cache = map[string]map[string]string{}
	if s.scanning != nil {
		s.scanning.Stop()
		s.scanning = nil
	}
	// What was not scanned yet is read at the start.
	for _, m := range s.pending {
		s.scanned[m.content] = m.id
	}
	s.pending = nil
}
