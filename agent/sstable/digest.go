package sstable

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ErrDigest says that a Data.db is not the one that was written.
var ErrDigest = errors.New("the digest is another")

// ErrNoDigest says that there is nothing to check a Data.db by.
var ErrNoDigest = errors.New("there is no Digest.crc32")

// CheckDigest compares a Data.db with the Digest.crc32 beside it. Where it is compressed,
// the digest is that of the compressed bytes: of the file as it is
// (io/compress/CompressedSequentialWriter.java, io/util/ChecksumWriter.java).
func CheckDigest(ctx context.Context, path string) error {
	beside := strings.TrimSuffix(path, dataComponent) + digestComponent
	text, err := os.ReadFile(beside)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", path, ErrNoDigest)
	}
	if err != nil {
		return fmt.Errorf("read a digest: %w", err)
	}
	want, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil {
		return fmt.Errorf("%s: %w: it is %.20q", beside, ErrDigest, text)
	}
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("check a digest: %w", err)
	}
	defer file.Close()
	sum := crc32.NewIEEE()
	if _, err := io.CopyBuffer(sum, patient{ctx, file}, make([]byte, 256<<10)); err != nil {
		return fmt.Errorf("check the digest of %s: %w", path, err)
	}
	if got := uint64(sum.Sum32()); got != want {
		return fmt.Errorf("%s: %w: %d instead of %d", path, ErrDigest, got, want)
	}
	return nil
}

// patient is a reader that ends with its context.
type patient struct {
	ctx context.Context
	io.Reader
}

func (p patient) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, context.Cause(p.ctx)
	}
	return p.Reader.Read(b)
}
