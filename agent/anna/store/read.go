package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob"

	"github.com/stategraft/stategraft/agent/anna/manifest"
	"github.com/stategraft/stategraft/agent/anna/pack"
)

// ReadPack gives yield the used records of a pack, as pack.Read does, and verifies size
// and checksum of the object: only when it returns nil were the records right.
// A pack that is lost or another than was written is ErrDamaged, and the error names it.
// An error of yield is returned as it is.
func (s *Store) ReadPack(ctx context.Context, p manifest.Pack, encrypted bool, identities []age.Identity, yield func(pack.Record) error) error {
	from := &object{ctx: ctx, bucket: s.bucket, name: p.Object, size: p.Size, sum: sha256.New()}
	defer from.close()
	for err := from.open(); err != nil; err = from.open() {
		if errors.Is(err, ErrDamaged) || !from.again(err) {
			return err
		}
	}
	if encrypted && len(identities) == 0 {
		return fmt.Errorf("pack %s: %w", p.Object, ErrNoKey)
	}
	var records io.Reader = from
	var mine error
	var err error
	if encrypted {
		records, err = age.Decrypt(from, identities...)
	}
	if err == nil {
		err = pack.Read(ctx, records, p.Used, func(r pack.Record) error {
			mine = yield(r)
			return mine
		})
	}
	var none *age.NoIdentityMatchError
	switch {
	case mine != nil:
		return mine
	case from.failed != nil:
		return from.failed
	case ctx.Err() != nil:
		return fmt.Errorf("read pack %s: %w", p.Object, ctx.Err())
	case errors.As(err, &none):
		return from.strange(p.SHA256)
	case err != nil:
		return fmt.Errorf("%w: pack %s: %w", ErrDamaged, p.Object, err)
	}
	return from.verify(p.SHA256)
}

// object reads one, of which the size is known. A connection that breaks is made again.
type object struct {
	ctx    context.Context
	bucket *blob.Bucket
	name   string
	size   int64
	at     int64
	sum    hash.Hash
	reader *blob.Reader
	stop   context.CancelFunc // ends the reader
	failed error              // what was wrong with the storage, not with the content
	breaks int                // since the last byte
}

// pause is the first between two connections; it is doubled. tries are how often the same
// is asked for. Tests have less patience.
var (
	pause = 500 * time.Millisecond
	tries = 5
	// stall is how long the storage may send nothing before the connection is made again: a
	// node that is restored must not wait for ever, and not say why.
	stall = 2 * time.Minute
)

func (o *object) close() {
	if o.reader != nil {
		o.reader.Close()
		o.reader = nil
	}
	if o.stop != nil {
		o.stop()
		o.stop = nil
	}
}

func (o *object) open() error {
	o.close()
	var ctx context.Context
	ctx, o.stop = context.WithCancel(o.ctx)
	var reader *blob.Reader
	var err error
	o.within(func() { reader, err = o.bucket.NewRangeReader(ctx, o.name, o.at, -1, nil) })
	switch {
	case notFound(err):
		return fmt.Errorf("%w: pack %s is not in the storage", ErrDamaged, o.name)
	case err != nil:
		return fmt.Errorf("read pack %s: %w", o.name, err)
	}
	if o.reader = reader; reader.Size() != o.size {
		return fmt.Errorf("%w: pack %s has %d bytes, and %d were written", ErrDamaged, o.name, reader.Size(), o.size)
	}
	return nil
}

// Read is an io.Reader's. Its errors are in failed too, since who reads wraps them as he likes.
func (o *object) Read(b []byte) (int, error) {
	for {
		if o.at == o.size {
			return 0, io.EOF
		}
		if o.reader == nil {
			if err := o.open(); err != nil && (errors.Is(err, ErrDamaged) || !o.again(err)) {
				o.failed = err
				return 0, err
			} else if err != nil {
				continue
			}
		}
		var n int
		var err error
		o.within(func() { n, err = o.reader.Read(b) })
		o.at += int64(n)
		o.sum.Write(b[:n])
		if n > 0 {
			o.breaks = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		o.close()
		if !o.again(err) {
			o.failed = fmt.Errorf("read pack %s: the storage broke off after %d of %d bytes: %w", o.name, o.at, o.size, err)
			return 0, o.failed
		}
	}
}

// within ends the reader where it does not get on.
func (o *object) within(do func()) {
	defer time.AfterFunc(stall, o.stop).Stop()
	do()
}

// again waits before another try, and tells whether there is one.
func (o *object) again(error) bool {
	o.breaks++
	if o.breaks >= tries {
		return false
	}
	select {
	case <-o.ctx.Done():
		return false
	case <-time.After(pause << (o.breaks - 1)):
		return true
	}
}

// strange says why none of the keys decrypts a pack: they are others, or what tells of the
// keys is damaged.
func (o *object) strange(want string) error {
	if _, err := io.Copy(io.Discard, o); err != nil {
		return err
	}
	if err := o.verify(want); err != nil {
		return err
	}
	return fmt.Errorf("pack %s: %w", o.name, ErrNoKey)
}

func (o *object) verify(want string) error {
	if got := hex.EncodeToString(o.sum.Sum(nil)); o.at != o.size || got != want {
		return fmt.Errorf("%w: pack %s is another than was written: its sha256 is %s, and was %s", ErrDamaged, o.name, got, want)
	}
	return nil
}
