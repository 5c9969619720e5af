// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capportal/cluster-api-provider-portal/api/v1beta1"
	"github.com/capportal/cluster-api-provider-portal/cloud"
)

// client adds to the configuration what the Secret says about the portal account, and for whom the client is: a namespace.
//
// The name of an account counts in the Secret's own namespace. A tenant could write any name into a Secret, and would slow down
// another one whose account has that name.
func (r *Resolver) client(namespace string, secret *corev1.Secret, config cloud.Config) (*cloud.Client, error) {
	config.Owner = namespace
	if name := string(secret.Data[infrav1.IdentityAccount]); name != "" {
		config.Account = secret.Namespace + "/" + name
	}
	if text := string(secret.Data[infrav1.IdentityRequestsPerMinute]); text != "" {
		number, err := strconv.Atoi(text)
		if err != nil || number < 1 {
			return nil, errors.New(infrav1.IdentityRequestsPerMinute + ": must be a whole number of requests, such as 600")
		}
		config.RequestsPerMinute = number
	}
	return r.Pool.Client(config)
}
