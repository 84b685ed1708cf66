// Package zmtp is as much of ZeroMQ's wire protocol (ZMTP 3.0, rfc.zeromq.org/spec/23,
// security NULL) as it takes to talk to Anna: connections that send and receive
// messages, and a listener.
//
// Why not the sockets of go-zeromq: its listener shakes hands in the accept loop, so
// that one peer which stays silent keeps all others out; a frame's length is
// believed, so that a wrong one ends the process; a message sent after the peer has
// gone is lost without an error; a dial blocks the sender of other messages; and it
// reads a frame's header without a buffer. Here a program that must never stop
// reading sees every connection and its end.
package zmtp

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// Type is a type of socket.
type Type string

// The types that Anna uses.
const (
	Push Type = "PUSH"
	Pull Type = "PULL"
	Req  Type = "REQ"
	Rep  Type = "REP"
)

// partners are the types that a socket may be connected to.
var partners = map[Type][]Type{
	Push: {Pull},
	Pull: {Push},
	Req:  {Rep, "ROUTER"},
	Rep:  {Req, "DEALER"},
}

// ErrProtocol says that the peer does not speak ZMTP 3, or not as a socket of a type
// that fits.
var ErrProtocol = errors.New("not the ZeroMQ protocol that is expected")

const (
	greetingSize = 64
	// handshakeLimit bounds the peer's READY: a type, an identity, perhaps more.
	handshakeLimit = 64 << 10

	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// greeting is who we are: signature, version 3.0, NULL security, no server.
func greeting() []byte {
	b := make([]byte, greetingSize)
	b[0], b[9] = 0xff, 0x7f
	b[10] = 3
	copy(b[12:32], "NULL")
	return b
}

// ready is the command which tells the type of the socket.
func ready(t Type) []byte {
	body := append([]byte{5}, "READY"...)
	body = appendProperty(body, "Socket-Type", string(t))
	body = appendProperty(body, "Identity", "")
	return append([]byte{flagCommand, byte(len(body))}, body...)
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(append(b, 0, 0, 0, byte(len(value))), value...)
}

// handshake tells the peer who we are and checks who it is.
func (c *Conn) handshake(t Type) error {
	if _, err := c.raw.Write(append(greeting(), ready(t)...)); err != nil {
		return fmt.Errorf("send the greeting: %w", err)
	}
	var theirs [greetingSize]byte
	if _, err := io.ReadFull(c.reader, theirs[:]); err != nil {
		return fmt.Errorf("read the greeting: %w", err)
	}
	switch {
	case theirs[0] != 0xff || theirs[9]&1 != 1:
		return fmt.Errorf("%w: it is not ZeroMQ", ErrProtocol)
	case theirs[10] < 3:
		return fmt.Errorf("%w: version %d of ZMTP, 3 is needed", ErrProtocol, theirs[10])
	case string(theirs[12:17]) != "NULL\x00":
		return fmt.Errorf("%w: security %q, Anna has NULL", ErrProtocol, theirs[12:32])
	}
	size, flags, err := c.header()
	if err != nil {
		return fmt.Errorf("read the peer's type: %w", err)
	}
	if flags&flagCommand == 0 || size > handshakeLimit {
		return fmt.Errorf("%w: no READY command", ErrProtocol)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.reader, body); err != nil {
		return fmt.Errorf("read the peer's type: %w", err)
	}
	peer, err := socketType(body)
	if err != nil {
		return err
	}
	if !slices.Contains(partners[t], peer) {
		return fmt.Errorf("%w: the peer is a %s socket, which does not fit %s", ErrProtocol, peer, t)
	}
	return nil
}

// socketType reads a READY command.
func socketType(command []byte) (Type, error) {
	name, rest, ok := cut(command, 1)
	switch {
	case ok && string(name) == "ERROR":
		reason, _, _ := cut(rest, 1)
		return "", fmt.Errorf("%w: the peer refuses: %q", ErrProtocol, reason)
	case !ok || string(name) != "READY":
		return "", fmt.Errorf("%w: no READY command", ErrProtocol)
	}
	for len(rest) > 0 {
		var key, value []byte
		if key, rest, ok = cut(rest, 1); ok {
			value, rest, ok = cut(rest, 4)
		}
		if !ok {
			break
		}
		if equalFold(key, "socket-type") {
			return Type(value), nil
		}
	}
	return "", fmt.Errorf("%w: a READY command without a socket's type", ErrProtocol)
}

// cut takes bytes with their length, of so many bytes, before them.
func cut(b []byte, length int) (value, rest []byte, ok bool) {
	if len(b) < length {
		return nil, nil, false
	}
	size := 0
	for _, digit := range b[:length] {
		size = size<<8 | int(digit)
	}
	b = b[length:]
	if size > len(b) {
		return nil, nil, false
	}
	return b[:size], b[size:], true
}

func equalFold(a []byte, lower string) bool {
	if len(a) != len(lower) {
		return false
	}
	for i, c := range a {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
