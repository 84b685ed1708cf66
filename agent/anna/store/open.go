package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
)

// openLimit bounds the first look into the bucket.
const openLimit = 30 * time.Second

// Open reaches for the bucket and looks into it once. Errors say what to change.
func Open(ctx context.Context, c Config) (*Store, error) {
	opened, err := open(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("open the storage: %w", err)
	}
	s, err := New(opened, c)
	if err == nil {
		looking, cancel := context.WithTimeout(ctx, openLimit)
		defer cancel()
		if _, err = opened.List(&blob.ListOptions{Prefix: s.key("backups/")}).Next(looking); errors.Is(err, io.EOF) {
			err = nil // an empty bucket
		}
	}
	if err != nil {
		opened.Close()
		return nil, fmt.Errorf("open the storage: %w", c.explain(err))
	}
	return s, nil
}

// New is a Store in a bucket that is open already.
func New(bucket *blob.Bucket, c Config) (*Store, error) {
	s := &Store{bucket: bucket, config: c}
	for _, text := range c.Recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fmt.Errorf("%q is no public key of age: %w", text, err)
		}
		s.recipients = append(s.recipients, r)
	}
	return s, nil
}

func open(ctx context.Context, c Config) (*blob.Bucket, error) {
	switch c.Kind {
	case S3:
		return openS3(ctx, c)
	case GCS:
		return openGCS(ctx, c)
	case Azure:
		return openAzure(ctx, c)
	case Local:
		return fileblob.OpenBucket(c.directory(), &fileblob.Options{CreateDir: true, NoTempDir: true, Metadata: fileblob.MetadataDontWrite})
	}
	return nil, fmt.Errorf("%q is no kind of storage", c.Kind)
}

// credentials reads the KeyFile.
func (c Config) credentials() ([]byte, error) {
	text, err := os.ReadFile(c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the storage credentials: %w (leave [storage] key_file out, and those of the Secret are taken)", err)
	}
	return text, nil
}

// transport is as the other, and verifies certificates unless it is not to.
func (c Config) transport(as http.RoundTripper) http.RoundTripper {
	standard, is := as.(*http.Transport)
	if !c.NoVerify || !is {
		return as
	}
	mine := standard.Clone()
	skipVerify(mine)
	return mine
}

// skipVerify takes any certificate for right.
func skipVerify(t *http.Transport) {
	if t.TLSClientConfig == nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	t.TLSClientConfig.InsecureSkipVerify = true
}

// directory is that of Local.
func (c Config) directory() string { return filepath.Join(c.BasePath, c.Bucket) }
