package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// notFound tells whether the service has answered that there is no such object. Other
// things have that code too, and must not be taken for a lost pack, or for one that was
// removed: that Google denies the right to look, that a name could not be resolved, that
// the bucket itself is not there (but where an object is read: Google's library keeps its
// words back then).
func notFound(err error) bool {
	if code := googleCode(err); code != 0 {
		return code == http.StatusNotFound && !noBucket(err)
	}
	var name *net.DNSError
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) && answer.HTTPStatusCode() != http.StatusNotFound {
		return false // a bucket of another region, a pack in an archive
	}
	return gcerrors.Code(err) == gcerrors.NotFound && !errors.As(err, &name) && !noBucket(err)
}

// noBucket tells whether the service says that it is the bucket that is not there.
func noBucket(err error) bool {
	var answer *googleapi.Error
	if errors.As(err, &answer) && (strings.Contains(answer.Message, "bucket does not exist") || strings.Contains(answer.Body, "bucket does not exist")) {
		return true // Google has words for it alone
	}
	return amazon(err) == "NoSuchBucket" || bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted)
}

// there tells whether the object was there already that a write was not to replace.
func there(err error) bool {
	return gcerrors.Code(err) == gcerrors.FailedPrecondition
}

// denied tells whether the service knows who asks, or does not, and refuses.
func denied(err error) bool {
	var token *oauth2.RetrieveError
	if errors.As(err, &token) {
		return token.Response == nil || !passing(token.Response.StatusCode)
	}
	var identity *azidentity.AuthenticationFailedError
	switch code := googleCode(err); {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, errors.As(err, &identity):
		return true
	case code != 0:
		return false
	}
	switch amazon(err) {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "AccountProblem", "AllAccessDisabled", "NotSignedUp":
		return true
	}
	return gcerrors.Code(err) == gcerrors.PermissionDenied || bloberror.HasCode(err,
		bloberror.AuthenticationFailed, bloberror.AuthorizationFailure, bloberror.AuthorizationPermissionMismatch, bloberror.AuthorizationProtocolMismatch,
		bloberror.AuthorizationResourceTypeMismatch, bloberror.AuthorizationServiceMismatch, bloberror.AuthorizationSourceIPMismatch,
		bloberror.AccountIsDisabled, bloberror.InsufficientAccountPermissions, bloberror.InvalidAuthenticationInfo, bloberror.NoAuthenticationInformation,
		"KeyBasedAuthenticationNotPermitted", "PublicAccessNotPermitted")
}

// passing tells whether a status says nothing of who asks: another time it is another.
func passing(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

// googleCode is the HTTP status of an answer of Google's, or 0.
func googleCode(err error) int {
	var answer *googleapi.Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// amazon is the code of an error of S3's, or empty.
func amazon(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// explain adds what to do to an error of the first look.
func (c Config) explain(err error) error {
	text := err.Error()
	var name *net.DNSError
	switch {
	case errors.As(err, &name) && c.Kind == Azure && c.Host == "":
		return fmt.Errorf("the Azure storage account has no address: correct storage_account in the credentials, or what the network allows: %w", err)
	case errors.As(err, &name):
		return fmt.Errorf("the storage's name cannot be resolved: check [storage] host, and what the network allows: %w", err)
	case denied(err), unavailable(text):
		return c.refused(err)
	case amazon(err) == "PermanentRedirect", amazon(err) == "AuthorizationHeaderMalformed":
		return fmt.Errorf("the bucket %s is in another region than %s: correct [storage] region: %w", c.Bucket, c.Region, err)
	case noBucket(err) || notFound(err):
		return fmt.Errorf("the bucket %s is not there: make it, or correct [storage] bucket_name: %w", c.Bucket, err)
	case strings.Contains(text, http.ErrSchemeMismatch.Error()):
		return fmt.Errorf("the storage at %s speaks HTTP: set [storage] secure = False: %w", c.Host, err)
	case strings.Contains(text, "x509:"):
		return fmt.Errorf("the certificate of the storage at %s cannot be verified: name its authority in SSL_CERT_FILE, or set [storage] ssl_verify = False: %w", c.Host, err)
	case strings.Contains(text, "requests are not permitted for non"):
		return fmt.Errorf("a workload identity is not sent in the clear: set [storage] secure = True, or use the account's key: %w", err)
	case errors.Is(err, context.DeadlineExceeded), strings.Contains(text, "dial tcp"):
		return fmt.Errorf("the storage cannot be reached: check [storage] host, port and secure, and what the network allows: %w", err)
	}
	return err
}

// unavailable tells of the words of Azure's and Google's libraries, which have no type for it,
// whether no identity of the pod's could be had.
func unavailable(text string) bool {
	return strings.Contains(text, "failed to acquire a token") || strings.Contains(text, "compute: Received 4") && !strings.Contains(text, "compute: Received 429") || strings.Contains(text, "GCE metadata")
}

// refused says what to do where the service refuses.
func (c Config) refused(err error) error {
	var token *oauth2.RetrieveError
	var identity *azidentity.AuthenticationFailedError
	switch {
	case errors.As(err, &token):
		return fmt.Errorf("the credentials are refused by Google: make a new key of the service account, and put it into the Secret: %w", err)
	case c.KeyFile != "" && !errors.As(err, &identity) && !unavailable(err.Error()):
		return fmt.Errorf("the credentials may not list the bucket %s: correct the Secret, or give its account rights to list, read, write and delete there: %w", c.Bucket, err)
	}
	return fmt.Errorf("the workload identity may not list the bucket %s: give it rights to list, read, write and delete there, or name a Secret with credentials: %w", c.Bucket, err)
}
