package stage

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/stategraft/stategraft/agent/anna/wire"
	"github.com/stategraft/stategraft/agent/files"
)

// Record is a key with its value as Anna gave it.
type Record struct {
	Key     string
	Lattice wire.Lattice
	Payload []byte
}

// Size is what a record counts for, in bytes.
func (r Record) Size() int64 { return int64(len(r.Key) + len(r.Payload)) }

// longest is of a key or a payload in a file of records, in bytes: protobuf knows no
// longer message.
const longest = 2 << 30

// Writer writes a file of records: a zstd stream of, for each, the lengths of key and
// payload and the lattice type as varints, then both. It is the pod's own, for its
// emptyDir, and of no use elsewhere.
type Writer struct {
	pack    Pack
	path    string // of the file when it is done
	file    *os.File
	sum     hash.Hash
	zip     *zstd.Encoder
	head    []byte
	folders map[string]bool
}

// mostFolders is of one pack.
const mostFolders = 1000

// NewWriter begins the file that p names in a directory.
func NewWriter(dir string, p Pack) (*Writer, error) {
	w := &Writer{pack: p, path: filepath.Join(dir, p.File), sum: sha256.New(), folders: map[string]bool{}}
	file, err := os.Create(w.path + ".part")
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", p.File, err)
	}
	w.file = file
	w.zip, err = zstd.NewWriter(io.MultiWriter(file, w.sum), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		w.Abort()
		return nil, fmt.Errorf("stage %s: %w", p.File, err)
	}
	return w, nil
}

// Add writes a record, which it does not keep.
func (w *Writer) Add(r Record) error {
	w.head = binary.AppendUvarint(w.head[:0], uint64(len(r.Key)))
	w.head = binary.AppendUvarint(w.head, uint64(r.Lattice))
	w.head = binary.AppendUvarint(w.head, uint64(len(r.Payload)))
	w.head = append(w.head, r.Key...)
	_, err := w.zip.Write(w.head)
	if err == nil {
		_, err = w.zip.Write(r.Payload)
	}
	if err != nil {
		return fmt.Errorf("stage %s: %w", w.pack.File, err)
	}
	w.pack.Keys++
	w.pack.Bytes += r.Size()
	if folder := path.Dir(r.Key); folder != "." && len(w.folders) < mostFolders && !w.folders[folder] {
		w.folders[strings.Clone(folder)] = true
	}
	return nil
}

// Written is the number of bytes of records so far.
func (w *Writer) Written() int64 { return w.pack.Bytes }

// Close ends the file, gives it its name and leaves beside it what it is.
func (w *Writer) Close() (Pack, error) {
	defer w.Abort()
	err := w.zip.Close()
	if err == nil {
		err = w.file.Sync()
	}
	if err == nil {
		err = w.file.Close()
	}
	if err == nil {
		err = os.Rename(w.path+".part", w.path)
	}
	if err != nil {
		return w.pack, fmt.Errorf("stage %s: %w", w.pack.File, err)
	}
	w.pack.SHA256 = hex.EncodeToString(w.sum.Sum(nil))
	w.pack.Folders = sorted(w.folders)
	return w.pack, files.WriteJSON(w.path+packSide, w.pack, 0o644, files.Owner{})
}

// Abort removes what is not finished.
func (w *Writer) Abort() {
	w.file.Close()
	os.Remove(w.path + ".part")
}

// have gives the pack that is in a directory already, if it is the one that is wanted
// and whole.
func have(dir string, want Pack) (Pack, bool) {
	content, err := os.ReadFile(filepath.Join(dir, want.File+packSide))
	var p Pack
	if err != nil || json.Unmarshal(content, &p) != nil {
		return p, false
	}
	if p.File != want.File || p.Object != want.Object || p.Of != want.Of || p.Node != want.Node {
		return p, false
	}
	return p, p.verify(dir) == nil
}

// errDamaged says that a staged file is not what was written.
var errDamaged = errors.New("is damaged")

func (p Pack) verify(dir string) error {
	file, err := os.Open(filepath.Join(dir, p.File))
	if err != nil {
		return fmt.Errorf("look at what is staged: %w", err)
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return fmt.Errorf("look at what is staged: %w", err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != p.SHA256 {
		return fmt.Errorf("the staged file %s %w", p.File, errDamaged)
	}
	return nil
}

// Records passes the records of a pack on, in the order in which they stand there. The
// record is the function's to keep.
func (s Staged) Records(p Pack, each func(Record) error) error {
	file, err := os.Open(filepath.Join(s.Dir, p.File))
	if err != nil {
		return fmt.Errorf("read what is staged: %w", err)
	}
	defer file.Close()
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("read the staged file %s: %w", p.File, err)
	}
	defer zip.Close()
	in := bufio.NewReaderSize(zip, 64<<10)
	for n := int64(0); ; n++ {
		r, err := readRecord(in)
		if errors.Is(err, io.EOF) && n == p.Keys {
			return nil
		}
		if err == nil && n == p.Keys {
			err = errors.New("it has more records than it should")
		}
		if err != nil {
			return fmt.Errorf("read record %d of the staged file %s, which %w: %w", n, p.File, errDamaged, err)
		}
		if err := each(r); err != nil {
			return err
		}
	}
}

// readRecord gives io.EOF only between two records.
func readRecord(in *bufio.Reader) (Record, error) {
	var sizes [3]uint64
	for i := range sizes {
		n, err := binary.ReadUvarint(in)
		if i > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err == nil && n > longest {
			err = fmt.Errorf("%d bytes are too many", n)
		}
		if err != nil {
			return Record{}, err
		}
		sizes[i] = n
	}
	key, err := readBytes(in, sizes[0])
	if err != nil {
		return Record{}, err
	}
	payload, err := readBytes(in, sizes[2])
	return Record{Key: string(key), Lattice: wire.Lattice(sizes[1]), Payload: payload}, err
}

// readBytes makes room as the bytes come, not as a damaged length wants it.
func readBytes(in io.Reader, n uint64) ([]byte, error) {
	const first = 1 << 20
	if n <= first {
		b := make([]byte, n)
		_, err := io.ReadFull(in, b)
		return b, unexpected(err)
	}
	b, err := io.ReadAll(io.LimitReader(in, int64(n)))
	if err == nil && uint64(len(b)) != n {
		err = io.ErrUnexpectedEOF
	}
	return b, err
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
