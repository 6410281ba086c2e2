package bounds

import "sync"

// Line is a queue whose users take turns: Pop returns the oldest item of the user whose
// last item was popped longest ago. An item of a user without others in the line waits for
// at most one item of each other user. Line bounds nothing: callers put a Gate in front. A Line
// is safe for concurrent use.
type Line[T any] struct {
	mu struct {
		sync.Mutex
		users map[string]*lane[T]
		turns []*lane[T] // of users with items, the next one first
		first int        // index of the next one in turns
		size  int
	}
	ready chan struct{} // full while there are items
}

// lane is the items of one user.
type lane[T any] struct {
	user  string
	items []T
	first int // index of the oldest one
}

// NewLine returns an empty line.
func NewLine[T any]() *Line[T] {
	l := &Line[T]{ready: make(chan struct{}, 1)}
	l.mu.users = map[string]*lane[T]{}
	return l
}

// Push adds an item of a user.
func (l *Line[T]) Push(user string, item T) {
	l.mu.Lock()
	a := l.mu.users[user]
	if a == nil {
		a = &lane[T]{user: user}
		// His turn is the last: a user who begins to send waits for one item of each user before him, as
		// one who has just been served does.
		l.mu.users[user] = a
		l.mu.turns = append(l.mu.turns, a)
	}
	a.items = append(a.items, item)
	l.mu.size++
	l.mu.Unlock()
	// Outside the lock, and never waiting: the channel holds one value, which means any number of items.
	select {
	case l.ready <- struct{}{}:
	default: // the reader will be woken already
	}
}

// Ready is readable when there may be items. The reader takes one value and then pops until
// the line is empty, or calls Again.
func (l *Line[T]) Ready() <-chan struct{} { return l.ready }

// Again makes Ready readable if items are left.
func (l *Line[T]) Again() {
	if l.Len() == 0 {
		return
	}
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// Pop removes and returns the next item, and its user. It returns false if there is none.
func (l *Line[T]) Pop() (item T, user string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.size == 0 {
		return item, "", false
	}
	// Popping moves an index. To move the slice instead would be linear in the number of users for each
	// item.
	a := l.mu.turns[l.mu.first]
	l.mu.turns[l.mu.first] = nil
	l.mu.first++
	var none T
	// The array lives on, so it must not keep the item.
	item, a.items[a.first] = a.items[a.first], none
	a.first++
	l.mu.size--
	if a.first == len(a.items) {
		// The number of users has no bound, so one without items takes no memory.
		delete(l.mu.users, a.user)
	} else {
		l.mu.turns = append(l.mu.turns, a)
		a.items, a.first = compacted(a.items, a.first)
	}
	l.mu.turns, l.mu.first = compacted(l.mu.turns, l.mu.first)
	return item, a.user, true
}

// compacted drops the first entries of a slice when they are at least its half, so that
// each entry is moved at most once for each one that was removed.
func compacted[E any](s []E, first int) ([]E, int) {
	if 2*first < len(s) {
		return s, first
	}
	n := copy(s, s[first:])
	clear(s[n:])
	return s[:n], 0
}

// Len returns the number of items.
func (l *Line[T]) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.size
}
