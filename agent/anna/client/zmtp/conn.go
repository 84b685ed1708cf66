package zmtp

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	bufferSize = 64 << 10
	// MaxMessage bounds a message, in bytes: Anna serves values of 256 MB, protobuf ends at
	// 2 GB.
	MaxMessage = 1 << 30
	// eager is the size up to which a frame's length is believed before its bytes are there.
	eager = 64 << 20
	// piece is how much of a large frame is read between two calls of Progress.
	piece = 1 << 20
	// handshakeTime bounds what a peer may take to say who it is.
	handshakeTime = 10 * time.Second
)

// ErrTooLarge is the end of a connection whose peer announced more than MaxMessage.
var ErrTooLarge = errors.New("message too large")

// keepAlive finds a peer that is gone without a word within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Conn is one connection. One goroutine may send while another receives.
type Conn struct {
	raw    net.Conn
	reader *bufio.Reader
	writer *bufio.Writer
	// Progress, where set, is called while a large frame arrives, at least once a MiB.
	Progress func()
}

func newConn(raw net.Conn) *Conn {
	return &Conn{raw: raw, reader: bufio.NewReaderSize(raw, bufferSize), writer: bufio.NewWriterSize(raw, bufferSize)}
}

// Dial connects to host:port once, as a socket of a type; the context bounds it. The
// name is resolved at every call: a peer may have come back at another address.
func Dial(ctx context.Context, address string, t Type) (*Conn, error) {
	dialer := net.Dialer{KeepAliveConfig: keepAlive}
	raw, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("dial: %w", err)
	}
	conn := newConn(raw)
	until := time.Now().Add(handshakeTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	err = conn.open(t, until)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

func (c *Conn) open(t Type, until time.Time) error {
	if err := c.raw.SetDeadline(until); err != nil {
		return err
	}
	if err := c.handshake(t); err != nil {
		return err
	}
	return c.raw.SetDeadline(time.Time{})
}

// Send writes one message and sends it off. An error ends the connection.
func (c *Conn) Send(frames ...[]byte) error {
	if err := c.Write(frames...); err != nil {
		return err
	}
	return c.Flush()
}

// Write writes one message, which may stay in the buffer until Flush.
func (c *Conn) Write(frames ...[]byte) error {
	for i, frame := range frames {
		var head [9]byte
		size := 2
		if i < len(frames)-1 {
			head[0] = flagMore
		}
		if len(frame) > 255 {
			head[0] |= flagLong
			binary.BigEndian.PutUint64(head[1:], uint64(len(frame)))
			size = 9
		} else {
			head[1] = byte(len(frame))
		}
		if _, err := c.writer.Write(head[:size]); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		if _, err := c.writer.Write(frame); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	return nil
}

// Flush sends off what has been written.
func (c *Conn) Flush() error {
	if err := c.writer.Flush(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Buffered is how many bytes wait for Flush.
func (c *Conn) Buffered() int { return c.writer.Buffered() }

// Recv waits for one message. Its frames are the caller's. An error ends the
// connection.
func (c *Conn) Recv() ([][]byte, error) {
	frames, total := make([][]byte, 0, 1), 0
	for {
		size, flags, err := c.header()
		if err != nil {
			return nil, err
		}
		if size > uint64(MaxMessage-total) {
			return nil, fmt.Errorf("%w: %d bytes and more, %d are the most", ErrTooLarge, size, MaxMessage)
		}
		frame, err := c.body(int(size))
		if err != nil {
			return nil, err
		}
		if flags&flagCommand != 0 {
			continue // a PING of a later version: it is only sent to who has asked for it
		}
		// An empty frame counts too, or frames without end would fill the memory.
		frames, total = append(frames, frame), total+len(frame)+64
		if flags&flagMore == 0 {
			return frames, nil
		}
		if total > MaxMessage {
			return nil, fmt.Errorf("%w: too many frames", ErrTooLarge)
		}
	}
}

func (c *Conn) header() (size uint64, flags byte, err error) {
	flags, err = c.reader.ReadByte()
	if err != nil {
		return 0, 0, err
	}
	if flags&flagLong == 0 {
		short, err := c.reader.ReadByte()
		return uint64(short), flags, noEnd(err)
	}
	var long [8]byte
	_, err = io.ReadFull(c.reader, long[:])
	return binary.BigEndian.Uint64(long[:]), flags, noEnd(err)
}

// noEnd: the end of a connection within a message is none that was meant.
func noEnd(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// body reads a frame into memory of exactly its size. One that is said to be very
// large gets it only as its bytes come.
func (c *Conn) body(size int) ([]byte, error) {
	frame := make([]byte, min(size, eager))
	for at := 0; ; {
		end := min(len(frame), at+piece)
		n, err := io.ReadFull(c.reader, frame[at:end])
		if at += n; err != nil {
			return nil, noEnd(err)
		}
		if size > piece && c.Progress != nil {
			c.Progress()
		}
		switch {
		case at == size:
			return frame, nil
		case at == len(frame):
			frame = append(make([]byte, 0, min(size, 2*at)), frame...)
			frame = frame[:cap(frame)]
		}
	}
}

// Drain reads until the peer closes the connection, and throws away what it reads:
// how a socket that only sends learns of it.
func (c *Conn) Drain() error {
	_, err := io.Copy(io.Discard, c.reader)
	return err
}

// SetDeadline, SetWriteDeadline are those of net.Conn.
func (c *Conn) SetDeadline(t time.Time) error { return c.raw.SetDeadline(t) }

// SetWriteDeadline bounds sending.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.raw.SetWriteDeadline(t) }

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.raw.RemoteAddr() }

// Close ends the connection at once.
func (c *Conn) Close() error { return c.raw.Close() }

// Finish tells the peer that nothing more comes and waits until it has read all and
// closed its side, or until the deadline.
func (c *Conn) Finish(until time.Time) error {
	defer c.raw.Close()
	half, ok := c.raw.(interface{ CloseWrite() error })
	if !ok {
		return nil
	}
	if err := half.CloseWrite(); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if err := c.raw.SetReadDeadline(until); err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return c.Drain()
}
