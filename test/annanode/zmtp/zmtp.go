// Package zmtp is as much of ZeroMQ as Anna uses, for the test nodes: PUSH and
// PULL, REQ and REP over TCP and unix sockets, ZMTP 3.0 with the NULL
// mechanism, messages of one frame.
//
// It is written for the tests and not a library: what a socket of libzmq does
// that Anna's behaviour hangs on is kept. A PUSH socket connects in the
// background, for ever, and resolves the name each time; it holds 1000
// messages (the high-water mark) and then Send blocks, whether the peer is slow
// or was never there. A PULL socket that nobody reads stops the senders by TCP.
package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// HighWater is how many messages a PUSH socket keeps before Send blocks:
// ZMQ_SNDHWM's default, which Anna never changes.
const HighWater = 1000

// maxFrame bounds a foreign length; Anna was seen with messages of 256 MB.
const maxFrame = 1 << 30

// handshakeTimeout ends connections of something that is not ZeroMQ, such as
// a readiness probe that only opens the port.
const handshakeTimeout = 30 * time.Second

const (
	flagMore    = 1
	flagLong    = 2
	flagCommand = 4
)

// split cuts an endpoint into what net.Dial and net.Listen take.
func split(endpoint string) (network, address string, err error) {
	kind, address, ok := strings.Cut(endpoint, "://")
	switch {
	case ok && kind == "tcp":
		if strings.HasPrefix(address, "*:") {
			address = address[1:]
		}
		return "tcp", address, nil
	case ok && kind == "ipc":
		return "unix", address, nil
	}
	return "", "", fmt.Errorf("endpoint %q is neither tcp:// nor ipc://", endpoint)
}

// conn is a connection after its handshake.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

// handshake exchanges greeting and READY and tells the peer's socket type.
func handshake(c net.Conn, own string) (*conn, string, error) {
	if err := c.SetDeadline(time.Now().Add(handshakeTimeout)); err != nil {
		return nil, "", err
	}
	z := &conn{Conn: c, r: bufio.NewReaderSize(c, 64<<10), w: bufio.NewWriterSize(c, 64<<10)}
	greeting := [64]byte{0: 0xff, 9: 0x7f, 10: 3}
	greeting[8] = 1
	copy(greeting[12:], "NULL")
	ready := []byte("\x05READY")
	ready = appendProperty(ready, "Socket-Type", own)
	if own == "REQ" || own == "REP" {
		ready = appendProperty(ready, "Identity", "")
	}
	if _, err := z.w.Write(greeting[:]); err != nil {
		return nil, "", err
	}
	if err := z.writeFrame(flagCommand, ready); err != nil {
		return nil, "", err
	}
	if err := z.w.Flush(); err != nil {
		return nil, "", err
	}

	var theirs [64]byte
	if _, err := io.ReadFull(z.r, theirs[:]); err != nil {
		return nil, "", err
	}
	if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 {
		return nil, "", errors.New("the peer does not speak ZMTP 3")
	}
	flags, body, err := z.readFrame()
	if err != nil {
		return nil, "", err
	}
	name, rest, _ := strings.Cut(string(body), "READY")
	if flags&flagCommand == 0 || name != "\x05" {
		return nil, "", fmt.Errorf("the peer answered %q in place of READY", body)
	}
	return z, property(rest, "Socket-Type"), c.SetDeadline(time.Time{})
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(b, byte(len(name)))
	b = append(b, name...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
	return append(b, value...)
}

func property(s, name string) string {
	for len(s) > 0 {
		n := int(s[0])
		if len(s) < 1+n+4 {
			return ""
		}
		key := s[1 : 1+n]
		size := binary.BigEndian.Uint32([]byte(s[1+n : 1+n+4]))
		s = s[1+n+4:]
		if uint64(size) > uint64(len(s)) {
			return ""
		}
		if strings.EqualFold(key, name) {
			return s[:size]
		}
		s = s[size:]
	}
	return ""
}

func (c *conn) writeFrame(flags byte, body []byte) error {
	head := make([]byte, 0, 9)
	if len(body) > 255 {
		head = append(head, flags|flagLong)
		head = binary.BigEndian.AppendUint64(head, uint64(len(body)))
	} else {
		head = append(head, flags, byte(len(body)))
	}
	if _, err := c.w.Write(head); err != nil {
		return err
	}
	_, err := c.w.Write(body)
	return err
}

func (c *conn) readFrame() (flags byte, body []byte, err error) {
	if flags, err = c.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	var size uint64
	if flags&flagLong != 0 {
		var b [8]byte
		if _, err = io.ReadFull(c.r, b[:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(b[:])
	} else {
		b, err := c.r.ReadByte()
		if err != nil {
			return 0, nil, err
		}
		size = uint64(b)
	}
	if size > maxFrame {
		return 0, nil, fmt.Errorf("a frame of %d bytes", size)
	}
	body = make([]byte, size)
	_, err = io.ReadFull(c.r, body)
	return flags, body, err
}

// readMessage answers with the last frame of the next message: Anna's messages
// have one, those of REQ and REP an empty one before it.
func (c *conn) readMessage() ([]byte, error) {
	for {
		flags, body, err := c.readFrame()
		if err != nil {
			return nil, err
		}
		if flags&(flagCommand|flagMore) == 0 {
			return body, nil
		}
	}
}
