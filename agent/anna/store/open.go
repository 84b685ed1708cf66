package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2/google"
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

// directory is that of Local.
func (c Config) directory() string { return filepath.Join(c.BasePath, c.Bucket) }

func openGCS(ctx context.Context, c Config) (*blob.Bucket, error) {
	const scope = "https://www.googleapis.com/auth/devstorage.read_write"
	if os.Getenv("STORAGE_EMULATOR_HOST") != "" {
		return gcsblob.OpenBucket(ctx, gcp.NewAnonymousHTTPClient(gcp.DefaultTransport()), c.Bucket, nil)
	}
	var credentials *google.Credentials
	if c.KeyFile == "" {
		var err error
		if credentials, err = google.FindDefaultCredentials(ctx, scope); err != nil {
			return nil, fmt.Errorf("there are no credentials for Google Cloud Storage: give the pod a workload identity, or name a Secret with a service account's key: %w", err)
		}
	} else {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the storage credentials: %w", err)
		}
		var is struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(text, &is); err != nil || is.Type == "" {
			return nil, fmt.Errorf("the storage credentials in %s are not the JSON of a service account's key", c.KeyFile)
		}
		if credentials, err = google.CredentialsFromJSONWithType(ctx, text, google.CredentialsType(is.Type), scope); err != nil {
			return nil, fmt.Errorf("the storage credentials in %s: %w", c.KeyFile, err)
		}
	}
	client, err := gcp.NewHTTPClient(gcp.DefaultTransport(), gcp.CredentialsTokenSource(credentials))
	if err != nil {
		return nil, err
	}
	return gcsblob.OpenBucket(ctx, client, c.Bucket, nil)
}

func openAzure(ctx context.Context, c Config) (*blob.Bucket, error) {
	// The file is Medusa's: the account and its key. Without a key it is a workload
	// identity that opens the account.
	var of struct {
		Account string `json:"storage_account"`
		Key     string `json:"key"`
	}
	of.Account = os.Getenv("AZURE_STORAGE_ACCOUNT")
	if c.KeyFile != "" {
		text, err := os.ReadFile(c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the storage credentials: %w", err)
		}
		if err := json.Unmarshal(text, &of); err != nil {
			return nil, fmt.Errorf(`the storage credentials in %s are not JSON as {"storage_account": …, "key": …}`, c.KeyFile)
		}
	}
	if of.Account == "" {
		return nil, fmt.Errorf("the Azure storage account is not known: name it as storage_account in the credentials, or in AZURE_STORAGE_ACCOUNT")
	}
	url := c.azureURL(of.Account)
	var client *container.Client
	if of.Key != "" {
		key, err := container.NewSharedKeyCredential(of.Account, of.Key)
		if err != nil {
			return nil, fmt.Errorf("the key of the Azure storage account %s in %s is none: it has to be base64", of.Account, c.KeyFile)
		}
		if client, err = container.NewClientWithSharedKeyCredential(url, key, nil); err != nil {
			return nil, err
		}
	} else {
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("there are no credentials for the Azure storage account %s: %w", of.Account, err)
		}
		if client, err = container.NewClient(url, identity, nil); err != nil {
			return nil, err
		}
	}
	return azureblob.OpenBucket(ctx, client, nil)
}

// azureURL is the container's. Host is a domain as Medusa has it (windows.net), or, in the
// clear or as an address, a service of its own with the account in the path.
func (c Config) azureURL(account string) string {
	port := ""
	if c.Port != 0 {
		port = fmt.Sprint(":", c.Port)
	}
	switch {
	case c.Host == "":
		return fmt.Sprintf("https://%s.blob.core.windows.net/%s", account, c.Bucket)
	case c.Plain:
		return fmt.Sprintf("http://%s%s/%s/%s", c.Host, port, account, c.Bucket)
	case net.ParseIP(c.Host) != nil || !strings.Contains(c.Host, "."):
		return fmt.Sprintf("https://%s%s/%s/%s", c.Host, port, account, c.Bucket)
	}
	return fmt.Sprintf("https://%s.blob.core.%s%s/%s", account, c.Host, port, c.Bucket)
}

// explain adds what to do to an error of the first look.
func (c Config) explain(err error) error {
	text := err.Error()
	switch code := gcerrors.Code(err); {
	case code == gcerrors.NotFound:
		return fmt.Errorf("the bucket %s is not there: make it, or correct [storage] bucket_name: %w", c.Bucket, err)
	case code == gcerrors.PermissionDenied || strings.Contains(text, "InvalidAccessKeyId") || strings.Contains(text, "SignatureDoesNotMatch"):
		return fmt.Errorf("the credentials may not list the bucket %s: correct the Secret, or the rights of the workload identity: %w", c.Bucket, err)
	case strings.Contains(text, http.ErrSchemeMismatch.Error()):
		return fmt.Errorf("the storage at %s speaks HTTP: set [storage] secure = False: %w", c.Host, err)
	case strings.Contains(text, "x509:"):
		return fmt.Errorf("the certificate of the storage at %s cannot be verified: name its authority in SSL_CERT_FILE, or set [storage] ssl_verify = False: %w", c.Host, err)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "dial tcp"):
		return fmt.Errorf("the storage cannot be reached: check [storage] host, port and secure, and what the network allows: %w", err)
	}
	return err
}
