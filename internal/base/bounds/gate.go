package bounds

import (
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"sync"
)

// Gate is a Pool at which requests may wait for room. It is safe for concurrent use.
//
// Whenever there may be room, the waiting user goes first who would hold least with it;
// of equal ones, the one whose turn is longest ago. So a modest user passes all requests
// of a greedy one, and users who hold the same take turns. The requests of one user are
// admitted in the order of their arrival. If the first user does not fit, no other user is
// admitted: a large request is not passed for ever by others that would hold as much.
type Gate struct {
	mu struct {
		sync.Mutex
		pool    *Pool
		queues  map[string]*userQueue // of users who wait
		order   userHeap              // the same
		arrival uint64                // counts arrivals and admissions
	}
}

// userQueue is the requests of one user that wait at a gate.
type userQueue struct {
	user     string
	requests list.List // of *request
	key      int64     // what the user would hold with the first request
	turn     uint64    // when the user began to wait, or was last admitted while he waited
	index    int       // in the heap
}

// request waits at a gate.
type request struct {
	n        int64
	admitted chan struct{} // closed when it is admitted
}

// NewGate returns a gate of which nothing is held.
func NewGate(total int64) *Gate {
	g := &Gate{}
	g.mu.pool, g.mu.queues = NewPool(total), map[string]*userQueue{}
	return g
}

// Try takes n for a user if they fit and no request waits that comes before it. It never
// waits.
func (g *Gate) Try(user string, n int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Also if it would fit: the room that is free belongs to the large request at the head, which waits for
	// more.
	return len(g.mu.order) == 0 && g.mu.pool.Take(user, n)
}

// Take takes n for a user. It waits for room until ctx ends, and then returns the cause.
// A request for more than a user who is alone may hold fails at once. The caller must Give
// n back.
func (g *Gate) Take(ctx context.Context, user string, n int64) error {
	g.mu.Lock()
	// It would wait for ever, also when everything is free.
	if most := Share(g.mu.pool.total, 0); n > most {
		g.mu.Unlock()
		return fmt.Errorf("a request for %d exceeds the share of a user, which is %d", n, most)
	}
	// Only if nothing waits: else a stream of small requests would overtake a large one
	// without end.
	if len(g.mu.order) == 0 && g.mu.pool.Take(user, n) {
		g.mu.Unlock()
		return nil
	}
	q := g.mu.queues[user]
	g.mu.arrival++
	if q == nil {
		// The key is of the user's first request, which this one is.
		q = &userQueue{user: user, turn: g.mu.arrival, key: g.mu.pool.Held(user) + n}
		g.mu.queues[user] = q
		heap.Push(&g.mu.order, q)
	}
	r := &request{n: n, admitted: make(chan struct{})}
	at := q.requests.PushBack(r)
	g.admitLocked() // it may come before the ones that wait
	g.mu.Unlock()
	select {
	case <-r.admitted:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-r.admitted: // at the same moment: the room is the caller's after all
		return nil
	default:
	}
	// The rank of a user's queue depends on its first request, which may have been this one.
	// Still the user's queue: it is dropped only when its last request has gone, and this one has not.
	q.requests.Remove(at)
	g.rankLocked(user)
	g.admitLocked() // the next one may be smaller
	return context.Cause(ctx)
}

// Give returns n that the user has taken.
func (g *Gate) Give(user string, n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.pool.Add(user, -n)
	g.rankLocked(user)
	g.admitLocked()
}

// Yield gives n back and takes them again, after the requests that come first by then. It
// returns at once if no request waits. On an error the caller holds nothing.
func (g *Gate) Yield(ctx context.Context, user string, n int64) error {
	g.mu.Lock()
	idle := len(g.mu.order) == 0
	g.mu.Unlock()
	if idle {
		return nil
	}
	g.Give(user, n)
	return g.Take(ctx, user, n)
}

// Held returns what the user holds.
func (g *Gate) Held(user string) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.pool.Held(user)
}

// Used returns what all users hold.
func (g *Gate) Used() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.pool.Used()
}

// Waiting returns the number of users who wait.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.mu.order)
}

// admitLocked admits requests while the first one fits.
func (g *Gate) admitLocked() {
	for len(g.mu.order) > 0 {
		q := g.mu.order[0]
		front := q.requests.Front()
		r := front.Value.(*request)
		if !g.mu.pool.Take(q.user, r.n) {
			return
		}
		q.requests.Remove(front)
		// Under the lock, so that Take, which looks again under it, sees one outcome and not both.
		close(r.admitted)
		g.mu.arrival++
		// Only his queue's front has changed, and the user holds more, so one position in the heap is fixed
		// and not the order of all.
		q.turn = g.mu.arrival // users who hold the same go before it now
		g.rankLocked(q.user)
	}
}

// rankLocked puts a user who waits at his place in the order, after his use or his first
// request has changed.
func (g *Gate) rankLocked(user string) {
	q := g.mu.queues[user]
	if q == nil {
		return
	}
	front := q.requests.Front()
	if front == nil {
		heap.Remove(&g.mu.order, q.index)
		delete(g.mu.queues, user)
		return
	}
	// The pool has just changed for this user alone. What others hold does not enter their keys, so their
	// positions stay right.
	q.key = g.mu.pool.Held(user) + front.Value.(*request).n
	heap.Fix(&g.mu.order, q.index)
}

// userHeap implements heap.Interface.
type userHeap []*userQueue

func (h userHeap) Len() int { return len(h) }
func (h userHeap) Less(i, j int) bool {
	return h[i].key < h[j].key || h[i].key == h[j].key && h[i].turn < h[j].turn
}
func (h userHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *userHeap) Push(x any) {
	q := x.(*userQueue)
	q.index = len(*h)
	*h = append(*h, q)
}

// Pop implements heap.Interface.
func (h *userHeap) Pop() any {
	old := *h
	q := old[len(old)-1]
	// Else the array keeps the queue of a user who does not wait any more.
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return q
}
