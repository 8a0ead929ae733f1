"""Which layout explains these bytes? Where do two arrays differ? What lies in padding?"""
