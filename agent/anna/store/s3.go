package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

func openS3(ctx context.Context, c Config) (*blob.Bucket, error) {
	with := []func(*config.LoadOptions) error{config.WithRegion(c.Region), config.WithRetryMaxAttempts(tries)}
	switch {
	case c.KeyFile != "":
		if _, err := c.credentials(); err != nil {
			return nil, err
		}
		profile := c.Profile
		if profile == "" {
			profile = "default"
		}
		// Naming the profile makes it win over the environment.
		with = append(with, config.WithSharedCredentialsFiles([]string{c.KeyFile}), config.WithSharedConfigFiles(nil), config.WithSharedConfigProfile(profile))
	case c.Profile != "":
		with = append(with, config.WithSharedConfigProfile(c.Profile))
	}
	if c.Host != "" {
		with = append(with,
			// Services of others often know no checksums but those that S3 had at first.
			config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
			config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
	}
	if c.NoVerify {
		with = append(with, config.WithHTTPClient(awshttp.NewBuildableClient().WithTransportOptions(skipVerify)))
	}
	loaded, err := config.LoadDefaultConfig(ctx, with...)
	if err != nil {
		return nil, fmt.Errorf("the S3 credentials: %w; the file has to be as AWS has it: a [default] section with aws_access_key_id and aws_secret_access_key", err)
	}
	client := s3.NewFromConfig(loaded, func(o *s3.Options) {
		o.UsePathStyle = c.PathStyle
		if url := c.endpoint(); url != "" {
			o.BaseEndpoint = &url
		}
	})
	options := &s3blob.Options{RequestChecksumCalculation: loaded.RequestChecksumCalculation}
	if c.KMS != "" {
		options.EncryptionType, options.KMSEncryptionID = types.ServerSideEncryptionAwsKms, c.KMS
	}
	return s3blob.OpenBucket(ctx, client, c.Bucket, options)
}

// endpoint is the URL of a service that is not AWS.
func (c Config) endpoint() string {
	if c.Host == "" {
		return ""
	}
	scheme, host := "https", c.Host
	if c.Plain {
		scheme = "http"
	}
	switch {
	case c.Port != 0:
		host = net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(c.Port))
	case strings.Contains(host, ":") && !strings.HasPrefix(host, "[") && net.ParseIP(host) != nil:
		host = "[" + host + "]"
	}
	return scheme + "://" + host
}

// unconditional tells whether a service refuses a write because it knows no condition
// If-None-Match.
func unconditional(err error) bool {
	switch amazon(err) {
	case "NotImplemented", "InvalidArgument", "InvalidRequest":
		return true
	}
	var answer *awshttp.ResponseError
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusNotImplemented
}

// conflicting tells whether a conditional write was refused only because another one of
// the same object was going on.
func conflicting(err error) bool {
	return amazon(err) == "ConditionalRequestConflict" || amazon(err) == "OperationAborted"
}
