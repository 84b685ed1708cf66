package store

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"
)

func openAzure(ctx context.Context, c Config) (*blob.Bucket, error) {
	account, key, err := c.azureAccount()
	if err != nil {
		return nil, err
	}
	options := &container.ClientOptions{}
	options.Retry.MaxRetries, options.Retry.RetryDelay = int32(tries-1), pause
	if c.NoVerify {
		options.Transport = &http.Client{Transport: c.transport(http.DefaultTransport)}
	}
	url := c.azureURL(account)
	var client *container.Client
	if key != "" {
		shared, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, fmt.Errorf("the key of the Azure storage account %s in %s is none: it has to be base64", account, c.KeyFile)
		}
		if client, err = container.NewClientWithSharedKeyCredential(url, shared, options); err != nil {
			return nil, err
		}
	} else {
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("there are no credentials for the Azure storage account %s: %w", account, err)
		}
		if client, err = container.NewClient(url, identity, options); err != nil {
			return nil, err
		}
	}
	return azureblob.OpenBucket(ctx, client, nil)
}

// azureAccount is the storage account, and its key. The file is as Medusa has it. Without a
// key it is a workload identity that opens the account, which a file without one can name: a
// sidecar gets no environment from its users.
func (c Config) azureAccount() (account, key string, err error) {
	if c.KeyFile == "" {
		if account = os.Getenv("AZURE_STORAGE_ACCOUNT"); account == "" {
			return "", "", fmt.Errorf(`the Azure storage account is not known: give the sidecar a Secret with the credentials {"storage_account": …, "key": …}, of which a workload identity needs no key`)
		}
		return account, "", nil
	}
	text, err := c.credentials()
	if err != nil {
		return "", "", err
	}
	var of struct {
		Account string  `json:"storage_account"`
		Key     *string `json:"key"`
	}
	if err := json.Unmarshal(text, &of); err != nil {
		return "", "", fmt.Errorf(`the storage credentials in %s are not JSON as {"storage_account": …, "key": …}`, c.KeyFile)
	}
	switch {
	case of.Account == "":
		return "", "", fmt.Errorf(`the storage credentials in %s name no account: they have to be {"storage_account": …, "key": …}`, c.KeyFile)
	case of.Key == nil:
		return of.Account, "", nil
	case strings.TrimSpace(*of.Key) == "":
		return "", "", fmt.Errorf("the key of the Azure storage account %s in %s is empty: put it there, or leave key out for a workload identity", of.Account, c.KeyFile)
	}
	return of.Account, strings.TrimSpace(*of.Key), nil
}

// azureURL is the container's. Host is a domain as Medusa has it (windows.net), or, in the
// clear or as an address, a service of its own with the account in the path.
func (c Config) azureURL(account string) string {
	port := ""
	if c.Port != 0 {
		port = ":" + strconv.Itoa(c.Port)
	}
	switch {
	case c.Host == "":
		return fmt.Sprintf("https://%s.blob.core.windows.net%s/%s", account, port, c.Bucket)
	case c.Plain || net.ParseIP(strings.Trim(c.Host, "[]")) != nil || !strings.Contains(c.Host, "."):
		return fmt.Sprintf("%s/%s/%s", c.endpoint(), account, c.Bucket)
	}
	return fmt.Sprintf("https://%s.blob.core.%s%s/%s", account, c.Host, port, c.Bucket)
}
