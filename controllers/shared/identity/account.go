// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// config returns the configuration of a portal client on behalf of a namespace. It is the only place that reads the Secret's keys
// into it.
//
// The name of an account is only valid in the Secret's own namespace. Otherwise a tenant could write another tenant's account
// name into a Secret and slow that tenant down.
func (r *Resolver) config(namespace string, secret *corev1.Secret) (cloud.Config, error) {
	config := cloud.Config{
		BaseURL:   value(secret, infrav1.IdentityBaseURL),
		Email:     value(secret, infrav1.IdentityEmail),
		Password:  string(secret.Data[infrav1.IdentityPassword]),
		CABundle:  secret.Data[infrav1.IdentityCABundle],
		TOTPSeed:  value(secret, infrav1.IdentityTOTPSeed),
		Owner:     namespace,
		Hosts:     r.Hosts,
		Transport: r.Transport,
		UserAgent: r.UserAgent,
		Observe:   r.Observe, ObserveLogin: r.ObserveLogin,
	}
	if name := value(secret, infrav1.IdentityAccount); name != "" {
		config.Account = secret.Namespace + "/" + name
	}
	if text := value(secret, infrav1.IdentityRequestsPerMinute); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return config, errors.New(infrav1.IdentityRequestsPerMinute + ": must be a whole number of requests, such as 600")
		}
		config.RequestsPerMinute = number
	}
	switch value(secret, infrav1.IdentityCreations) {
	case "", infrav1.CreationsAllowed, infrav1.CreationsHeld:
	default:
		return config, fmt.Errorf("%s: must be %s or %s", infrav1.IdentityCreations, infrav1.CreationsAllowed, infrav1.CreationsHeld)
	}
	return config, nil
}

// value returns what a key of an identity Secret has, without the white space around it: a Secret that was made from a file often has a
// line break there. Only a password can have white space of its own.
func value(secret *corev1.Secret, key string) string {
	return strings.TrimSpace(string(secret.Data[key]))
}
