package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"
)

// WriteIndex replaces a node's index by the one of a backup. It is written after the manifest.
func (s *Store) WriteIndex(ctx context.Context, name, node string, from io.Reader) error {
	key := s.indexKey(name, node)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := s.bucket.NewWriter(ctx, key, s.options(partSize))
	if err != nil {
		return fmt.Errorf("write the index %s: %w", key, err)
	}
	if _, err := io.Copy(w, from); err != nil {
		cancel()
		return fmt.Errorf("write the index %s: %w", key, errors.Join(err, w.Close()))
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("write the index %s: %w", key, err)
	}
	return s.dropIndexes(ctx, node, key)
}

// OpenIndex reads the index of a backup: ErrNoBackup where there is none.
func (s *Store) OpenIndex(ctx context.Context, name, node string) (io.ReadCloser, int64, error) {
	r, err := s.bucket.NewReader(ctx, s.indexKey(name, node), nil)
	if notFound(err) {
		return nil, 0, fmt.Errorf("the index of backup %s of node %s: %w", name, node, ErrNoBackup)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read the index of backup %s of node %s: %w", name, node, err)
	}
	return r, r.Size(), nil
}

// Indexed is the backup of a node that has an index: the newest, or none.
func (s *Store) Indexed(ctx context.Context, node string) (name string, err error) {
	if err := CheckNames("-", node); err != nil {
		return "", err
	}
	var newest time.Time
	root := s.key("index/" + node + "/")
	err = s.list(ctx, root, func(o *blob.ListObject) {
		if of := strings.TrimPrefix(o.Key, root); CheckNames(of) == nil && !o.ModTime.Before(newest) {
			name, newest = of, o.ModTime
		}
	})
	if err != nil {
		return "", fmt.Errorf("list the indexes of node %s: %w", node, err)
	}
	return name, nil
}

// dropIndexes deletes the indexes of a node but one.
func (s *Store) dropIndexes(ctx context.Context, node, keep string) error {
	var old []string
	if err := s.list(ctx, s.key("index/"+node+"/"), func(o *blob.ListObject) {
		if o.Key != keep {
			old = append(old, o.Key)
		}
	}); err != nil {
		return fmt.Errorf("list the indexes of node %s: %w", node, err)
	}
	_, err := s.drop(ctx, old)
	return err
}
