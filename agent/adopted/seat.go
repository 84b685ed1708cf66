package adopted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// ErrNewer says that a newer container of the role serves: this one has nothing to do.
var ErrNewer = errors.New("a newer container serves already")

// Seat is who serves a role of a pod.
type Seat struct {
	PodUID string
	Role   string
	Number int // of the container
	// Busy tells whether a backup goes on, which is waited for before the seat is left;
	// nil for never.
	Busy func() bool
	// Hold, where set, keeps the next one from beginning, for good, and is false where that
	// cannot be as one goes on. It is asked when the seat is to be left.
	Hold func() bool
	Log  *slog.Logger // nil for none

	poll, limit time.Duration // 0 for the usual
}

const (
	busyPoll = time.Second
	// busyLimit is how long a backup may keep the newer from serving: by then it hangs.
	busyLimit = 24 * time.Hour
)

// Own waits for the seat of a role, asks an older container that has it to leave, and
// takes it. The seat is let go of by the end of the process alone, so whoever has it next
// finds all ports and all memory free. left is closed when a newer container wants the
// seat and nothing goes on: the caller ends what it has started, and then itself.
//
// The error is ErrNewer where a newer one is there, or the context's. Nothing else ends
// the wait.
func Own(ctx context.Context, s Seat) (left <-chan struct{}, err error) {
	if s.Log == nil {
		s.Log = slog.New(slog.DiscardHandler)
	}
	h := &holder{Seat: s, left: make(chan struct{}), turns: make(chan struct{}, mostTalk)}
	// Who brings the agent's binary asks here while this one waits.
	if l, err := net.Listen("unix", own(s.PodUID, s.Role, s.Number)); err == nil {
		go h.answer(l, false)
	} else {
		s.Log.Warn("the agent that has brought the binary cannot see that it was taken", "error", err.Error())
	}
	said := ""
	for {
		err := h.take(ctx)
		switch {
		case err == nil:
			return h.left, nil
		case errors.Is(err, ErrNewer):
			return nil, err
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, errAgain):
		case err.Error() != said:
			said = err.Error()
			s.Log.Warn("waiting to serve", "reason", said)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// errAgain says that the seat may be free now.
var errAgain = errors.New("the seat was left")

// take takes the seat, or has who has it leave it and waits for that.
func (h *holder) take(ctx context.Context) error {
	at := address(h.PodUID, h.Role)
	listener, err := net.Listen("unix", at)
	if err == nil {
		go h.answer(listener, true)
		return nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("take the seat: %w", err)
	}
	conn, a, err := dial(ctx, at, request{Number: h.Number, Leave: true})
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
		return errAgain // it has ended just now
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	if a.Number >= h.Number {
		return fmt.Errorf("%w: number %d, and this is %d", ErrNewer, a.Number, h.Number)
	}
	h.Log.Info("waiting for the older container to leave", "older", a.Number, "backup", a.Busy)
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	// It says nothing more; this is its end.
	_, _ = conn.Read(make([]byte, 1))
	return errAgain
}

// holder is a container of a role that runs.
type holder struct {
	Seat
	left  chan struct{}
	leave sync.Once
	turns chan struct{}
}

// answer answers the other containers for as long as the program runs.
func (h *holder) answer(l net.Listener, serves bool) {
	for {
		conn, err := l.Accept()
		if err != nil {
			// Too many files are open: the listener itself is never closed.
			time.Sleep(retryAfter)
			continue
		}
		select {
		case h.turns <- struct{}{}:
			go func() {
				defer func() { <-h.turns }()
				defer conn.Close()
				h.converse(conn, serves)
			}()
		default:
			conn.Close()
		}
	}
}

func (h *holder) converse(conn net.Conn, serves bool) {
	if err := familiar(conn); err != nil {
		return
	}
	var r request
	err := conn.SetDeadline(time.Now().Add(askLimit))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, talkLimit)).Decode(&r)
	}
	if err != nil {
		return
	}
	goes := serves && r.Leave && r.Number > h.Number
	a := reply{Number: h.Number, Busy: h.Busy != nil && h.Busy(), Leaving: goes}
	if json.NewEncoder(conn).Encode(a) != nil || !goes {
		return
	}
	h.leave.Do(func() { go h.depart(r.Number) })
	// Until this program ends, or the other has given up.
	_ = conn.SetDeadline(time.Time{})
	_, _ = conn.Read(make([]byte, 1))
}

// depart closes left when nothing goes on any more.
func (h *holder) depart(newer int) {
	h.Log.Info("a newer container is to serve", "newer", newer, "backup", h.Busy != nil && h.Busy())
	poll, limit := h.poll, h.limit
	if poll == 0 {
		poll, limit = busyPoll, busyLimit
	}
	for began := time.Now(); h.busy(); time.Sleep(poll) {
		if time.Since(began) > limit {
			h.Log.Warn("what goes on is not waited for any longer", "hours", limit.Hours())
			break
		}
	}
	close(h.left)
}

func (h *holder) busy() bool {
	if h.Hold != nil {
		return !h.Hold()
	}
	return h.Busy != nil && h.Busy()
}
