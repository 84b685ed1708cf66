package store

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"

	"cloud.google.com/go/storage"
	"github.com/googleapis/gax-go/v2"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/gcp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/option"
)

// emulator is the variable by which Google's library sends everything somewhere else, in the
// clear and without credentials.
const emulator = "STORAGE_EMULATOR_HOST"

func openGCS(ctx context.Context, c Config) (*blob.Bucket, error) {
	if os.Getenv(emulator) != "" {
		return nil, fmt.Errorf("%s is set: take it out of the environment; a service in place of Google's is named by [storage] host, port and secure", emulator)
	}
	client, err := c.gcsClient(ctx)
	if err != nil {
		return nil, err
	}
	// The client brings its own credentials: without this it looks for others beside them.
	options := &gcsblob.Options{ClientOptions: []option.ClientOption{option.WithoutAuthentication()}}
	if url := c.endpoint(); url != "" {
		options.ClientOptions = append(options.ClientOptions, option.WithEndpoint(url+"/storage/v1/"))
	}
	bucket, err := gcsblob.OpenBucket(ctx, client, c.Bucket, options)
	if err != nil {
		return nil, err
	}
	var google *storage.Client
	if bucket.As(&google) {
		// Left to itself it tries no write and no deletion again that has no condition, and
		// all else for ever. Of ours all are right when they are done twice.
		google.SetRetry(storage.WithPolicy(storage.RetryAlways), storage.WithMaxAttempts(tries), storage.WithBackoff(gax.Backoff{Initial: pause}))
	}
	return bucket, nil
}

// gcsClient adds the credentials to what is asked of the service.
func (c Config) gcsClient(ctx context.Context) (*gcp.HTTPClient, error) {
	const scope = "https://www.googleapis.com/auth/devstorage.read_write"
	transport := c.transport(gcp.DefaultTransport())
	if c.KeyFile == "" && c.Plain && c.Host != "" {
		return gcp.NewAnonymousHTTPClient(transport), nil // a service for tests: it knows no credentials
	}
	// Tokens are fetched while the Store is used, which ctx may not outlive.
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, &http.Client{Timeout: openLimit})
	var credentials *google.Credentials
	if c.KeyFile == "" {
		var err error
		if credentials, err = google.FindDefaultCredentials(ctx, scope); err != nil {
			return nil, fmt.Errorf("there are no credentials for Google Cloud Storage: give the pod a workload identity, or name a Secret with a service account's key: %w", err)
		}
	} else {
		text, err := c.credentials()
		if err != nil {
			return nil, err
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
	return gcp.NewHTTPClient(transport, gcp.CredentialsTokenSource(credentials))
}
