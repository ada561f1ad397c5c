package datasourcetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rulewire/rulewire/datasource"
)

// What the reference store answers when it is told to fail.
var (
	// ErrBroken is what every request gets while the link is broken.
	ErrBroken = errors.New("datasourcetest: link is broken")
	// ErrCut ends a watch that was cut.
	ErrCut = errors.New("datasourcetest: watch was cut")
	// ErrCompacted answers a watch from a revision whose history is gone.
	ErrCompacted = errors.New("datasourcetest: revision is compacted")
	// ErrReset says that the store counts from a lower number than the revision that a watch was to join.
	ErrReset = errors.New("datasourcetest: revision is lower than before")
	// ErrDenied is an answer that no repetition makes better.
	ErrDenied = fmt.Errorf("datasourcetest: %w", datasource.ErrDenied)
	// ErrStoreClosed is what every request gets after Store.Close.
	ErrStoreClosed = errors.New("datasourcetest: client is closed")

	// errAnswerLost tells the sink that its write was sent.
	errAnswerLost = errors.New("answer was lost")
)

// Op is one change of one key: a put of Data, or a deletion.
type Op struct {
	Key    string
	Data   []byte
	Delete bool
}

// Faults are what goes wrong between a driver and the store. The zero value is a healthy store.
//
// They stand between the client (sources, sinks) and the store only: Put, Delete and Txn are somebody else's edits
// over a link of their own and always succeed.
type Faults struct {
	// Reads, Watches and Writes are the answers to such requests; nil = the real one. An open watch is not affected;
	// see CutWatches.
	Reads, Watches, Writes error
	// LostAnswer is the answer to writes that are stored all the same.
	LostAnswer error
	// Latency delays each answer and each notification.
	Latency time.Duration
	// Stalled: requests hang until their ctx ends, and notifications are lost, without a word.
	Stalled bool
	// Duplicate sends each notification twice; Reorder sends the one before once more after each.
	Duplicate, Reorder bool
	// LoseEvery loses every nth notification; 1 loses all.
	LoseEvery int
	// StaleEmpty and StaleOld are how many of the next reads find nothing, or the document before the newest.
	StaleEmpty, StaleOld int
	// BeforeWatch is called once, by the next request for a watch, before the store looks at it: a change made here
	// falls between the driver's read and its watch.
	BeforeWatch func()
}

// Store is a key-value store in memory with revisions, compare-and-set writes, watches and faults. It works inside
// synctest bubbles (make it inside) and in real time. All methods are safe for concurrent use.
type Store struct {
	mu        sync.Mutex
	revision  uint64
	compacted uint64 // changes up to here can't be replayed
	keys      map[string]*history
	streams   map[*stream]struct{}
	faults    Faults
	changed   chan struct{} // closed and renewed when the faults change
	notified  int
	requests  int
	limit     int
	closes    int
}

// history is what the store knows of one key.
type history struct {
	now, before version
	log         []batch
}

// version is a key at one moment.
type version struct {
	present  bool
	data     []byte
	modified uint64 // revision of the last change
	seen     uint64 // revision of the store when it was read
}

// batch is what one revision did to one key.
type batch struct {
	revision uint64
	ops      []Op
}

// final folds the batch to the state that it leaves.
func (b batch) final() version {
	last := b.ops[len(b.ops)-1]
	return version{present: !last.Delete, data: last.Data, modified: b.revision, seen: b.revision}
}

// NewStore makes an empty, healthy store.
func NewStore() *Store {
	return &Store{keys: map[string]*history{}, streams: map[*stream]struct{}{}, changed: make(chan struct{})}
}

// Put stores data under key and gives the new revision.
func (s *Store) Put(key string, data []byte) uint64 { return s.Txn(Op{Key: key, Data: data}) }

// Delete removes key and gives the new revision; without such a key nothing happens.
func (s *Store) Delete(key string) uint64 { return s.Txn(Op{Key: key, Delete: true}) }

// Txn makes all changes under one revision; a watch gets those of its key in one message.
func (s *Store) Txn(ops ...Op) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.txn(ops)
}

func (s *Store) txn(ops []Op) uint64 {
	batches := map[string]*batch{}
	for _, op := range ops {
		h := s.keys[op.Key]
		if op.Delete && (h == nil || !h.now.present && batches[op.Key] == nil) {
			continue
		}
		op.Data = bytes.Clone(op.Data)
		b := batches[op.Key]
		if b == nil {
			b = &batch{revision: s.revision + 1}
			batches[op.Key] = b
		}
		b.ops = append(b.ops, op)
	}
	if len(batches) == 0 {
		return s.revision
	}
	s.revision++
	for key, b := range batches {
		h := s.keys[key]
		if h == nil {
			h = &history{}
			s.keys[key] = h
		}
		h.before, h.now = h.now, b.final()
		h.log = append(h.log, *b)
		s.notify(key, h.log)
	}
	return s.revision
}

// notify sends the last batch of log to the watches of key.
func (s *Store) notify(key string, log []batch) {
	for st := range s.streams {
		if st.key != key {
			continue
		}
		s.notified++
		if s.faults.Stalled || s.faults.LoseEvery > 0 && s.notified%s.faults.LoseEvery == 0 {
			continue
		}
		b := log[len(log)-1]
		st.send(b)
		if s.faults.Duplicate {
			st.send(b)
		}
		if s.faults.Reorder && len(log) > 1 {
			st.send(log[len(log)-2])
		}
	}
}

// Compact forgets the changes so far: a watch can't join an earlier revision any more.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = s.revision
	for _, h := range s.keys {
		h.log = nil
	}
}

// Restore puts the store back to a lower revision with these documents, as a backup does, and cuts the watches.
func (s *Store) Restore(revision uint64, ops ...Op) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.revision, s.compacted = map[string]*history{}, revision, revision
	s.cut(ErrCut)
	s.txn(ops)
}

// Revision is the store's newest.
func (s *Store) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Inject replaces the faults.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
	close(s.changed)
	s.changed = make(chan struct{})
}

// Break fails every request with err and cuts the watches; Heal ends it.
func (s *Store) Break(err error) {
	s.Inject(Faults{Reads: err, Watches: err, Writes: err})
	s.CutWatches(err)
}

// Heal takes all faults away.
func (s *Store) Heal() { s.Inject(Faults{}) }

// CutWatches ends every open watch with err.
func (s *Store) CutWatches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut(err)
}

func (s *Store) cut(err error) {
	for st := range s.streams {
		st.end(err)
		delete(s.streams, st)
	}
}

// Limit is the largest document that a sink may write, bytes; 0 = any.
func (s *Store) Limit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = n
}

// Requests is how many requests (reads, watches, writes) clients have sent.
func (s *Store) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Subscriptions is how many watches are open.
func (s *Store) Subscriptions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.streams)
}

// Close is what a driver must not do: the store stands for the user's client too, and a closed one answers nobody.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closes++
	s.cut(ErrStoreClosed)
	return nil
}

// Closes is how often Close was called.
func (s *Store) Closes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closes
}

// request is the way of every request through the link: counted, delayed, stalled, failed.
func (s *Store) request(ctx context.Context, fault func(*Faults) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	s.requests++
	latency := s.faults.Latency
	s.mu.Unlock()
	if err := wait(ctx, latency); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		stalled, changed, closed, err := s.faults.Stalled, s.changed, s.closes > 0, fault(&s.faults)
		s.mu.Unlock()
		switch {
		case closed:
			return ErrStoreClosed
		case !stalled:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// get is a client's read.
func (s *Store) get(ctx context.Context, key string) (version, error) {
	if err := s.request(ctx, func(f *Faults) error { return f.Reads }); err != nil {
		return version{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var v version
	h := s.keys[key]
	if h != nil {
		v = h.now
	}
	v.seen = s.revision
	switch {
	case s.faults.StaleEmpty > 0:
		s.faults.StaleEmpty--
		return version{seen: s.revision}, nil
	case s.faults.StaleOld > 0:
		s.faults.StaleOld--
		if h != nil {
			v = h.before
		}
	}
	return v, nil
}

// set is a client's compare-and-set: want is asked, under the store's lock, whether the current version may be replaced.
func (s *Store) set(ctx context.Context, key string, data []byte, want func(version) error) (version, error) {
	if err := s.request(ctx, func(f *Faults) error { return f.Writes }); err != nil {
		return version{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var now version
	if h := s.keys[key]; h != nil {
		now = h.now
	}
	if err := want(now); err != nil {
		return now, err
	}
	s.txn([]Op{{Key: key, Data: data}})
	if err := s.faults.LostAnswer; err != nil {
		return version{}, fmt.Errorf("%w: %w", errAnswerLost, err)
	}
	return s.keys[key].now, nil
}

// stream is a client's watch of one key.
type stream struct {
	store *Store
	key   string
	wake  chan struct{}

	mu    sync.Mutex
	queue []batch
	err   error
}

// fromNow makes watch start at the store's newest revision.
const fromNow = 0

// watch opens a watch of the changes from revision on. It also gives the store's newest revision at that moment.
func (s *Store) watch(ctx context.Context, key string, from uint64) (*stream, uint64, error) {
	s.mu.Lock()
	hook := s.faults.BeforeWatch
	s.faults.BeforeWatch = nil
	s.mu.Unlock()
	if hook != nil {
		hook()
	}
	if err := s.request(ctx, func(f *Faults) error { return f.Watches }); err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &stream{store: s, key: key, wake: make(chan struct{}, 1)}
	if from != fromNow {
		if from <= s.compacted {
			return nil, s.revision, ErrCompacted
		}
		if h := s.keys[key]; h != nil {
			for _, b := range h.log {
				if b.revision >= from {
					st.send(b)
				}
			}
		}
	}
	s.streams[st] = struct{}{}
	return st, s.revision, nil
}

func (st *stream) send(b batch) {
	st.mu.Lock()
	st.queue = append(st.queue, b)
	st.mu.Unlock()
	st.rouse()
}

func (st *stream) end(err error) {
	st.mu.Lock()
	st.err = err
	st.mu.Unlock()
	st.rouse()
}

func (st *stream) rouse() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// next waits for the next message. What was sent before the end of the watch is lost with it, as on a real link.
func (st *stream) next(ctx context.Context) (batch, error) {
	for {
		st.mu.Lock()
		err := st.err
		var b batch
		found := len(st.queue) > 0
		if found {
			b = st.queue[0]
			st.queue = slices.Delete(st.queue, 0, 1)
		}
		st.mu.Unlock()
		if err != nil {
			return batch{}, err
		}
		if found {
			st.store.mu.Lock()
			latency := st.store.faults.Latency
			st.store.mu.Unlock()
			return b, wait(ctx, latency)
		}
		select {
		case <-st.wake:
		case <-ctx.Done():
			return batch{}, ctx.Err()
		}
	}
}

// close gives the watch up.
func (st *stream) close() {
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	delete(st.store.streams, st)
}
