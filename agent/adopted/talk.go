package adopted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"
)

// The containers of a pod share no file system, but the network: of its abstract sockets
// (unix(7)) nobody outside of it can reach one, and one goes with the process that has it.
// On the host network they are the node's; the pod's UID in the name keeps pods apart,
// and who has another user is not heard. Who has the same one there could keep backups
// from being made, and nothing else: what is said is who serves.

// address is where the container that serves a role is asked.
func address(podUID, role string) string { return "@stategraft.io/" + podUID + "/" + role }

// own is where a container of the role answers by itself, also while it waits to serve.
func own(podUID, role string, number int) string {
	return address(podUID, role) + "/" + strconv.Itoa(number)
}

// request is what a container asks another.
type request struct {
	Number int  `json:"number"`          // of who asks; 0 where that does not matter
	Leave  bool `json:"leave,omitempty"` // the other is to leave, if it is the older one
}

// reply is what it answers.
type reply struct {
	Number  int  `json:"number"`
	Busy    bool `json:"busy,omitempty"`    // with a backup
	Leaving bool `json:"leaving,omitempty"` // when it is not busy any more. The connection stays until it has left
}

const (
	askLimit   = 5 * time.Second // for an answer, and for a question
	talkLimit  = 4096            // bytes of either
	mostTalk   = 32              // connections at a time
	retryAfter = 500 * time.Millisecond
)

var errStranger = errors.New("who answers there is another user's")

// dial asks, and leaves the connection open.
func dial(ctx context.Context, address string, r request) (net.Conn, reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", address)
	if err != nil {
		return nil, reply{}, fmt.Errorf("ask %s: %w", address, err)
	}
	var a reply
	err = familiar(conn)
	if err == nil {
		deadline, _ := ctx.Deadline()
		err = conn.SetDeadline(deadline)
	}
	if err == nil {
		err = json.NewEncoder(conn).Encode(r)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(conn, talkLimit)).Decode(&a)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, reply{}, fmt.Errorf("ask %s: %w", address, err)
	}
	return conn, a, nil
}

func ask(ctx context.Context, address string, r request) (reply, error) {
	conn, a, err := dial(ctx, address, r)
	if err == nil {
		conn.Close()
	}
	return a, err
}

// familiar tells whether the other side runs as the same user as this program, or as root.
func familiar(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var peer *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		peer, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if uid := int(peer.Uid); uid != os.Getuid() && uid != 0 {
		return fmt.Errorf("%w: %d, and this is %d", errStranger, peer.Uid, os.Getuid())
	}
	return nil
}

// Taken tells whether a container of a role, or one with a higher number, runs: it has
// the agent's binary.
func Taken(ctx context.Context, podUID, role string, number int) bool {
	for _, at := range []string{address(podUID, role), own(podUID, role, number)} {
		if a, err := ask(ctx, at, request{}); err == nil && a.Number >= number {
			return true
		}
	}
	return false
}

// Busy tells whether the container that serves a role is busy with a backup. Where nobody
// serves, none is made.
func Busy(ctx context.Context, podUID, role string) bool {
	a, err := ask(ctx, address(podUID, role), request{})
	return err == nil && a.Busy
}
